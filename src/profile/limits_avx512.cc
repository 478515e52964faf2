#include <immintrin.h>

#include <cstdint>

#include "profile/peak_loops.h"

namespace evoq {
namespace {

// 24 independent accumulators hide the latency of two dot products per cycle.
constexpr int kAccumulators = 24;
constexpr int kRepeats = 64;

double Int8Loop(int64_t rounds) {
  __m512i acc[kAccumulators];
  for (auto& a : acc) a = _mm512_setzero_si512();
  __m512i x = _mm512_set1_epi8(1), w = _mm512_set1_epi8(2);
  for (int64_t r = 0; r < rounds * kRepeats; ++r) {
#pragma GCC unroll 24
    for (int i = 0; i < kAccumulators; ++i) acc[i] = _mm512_dpbusd_epi32(acc[i], x, w);
    __asm__ volatile("" : "+v"(x), "+v"(w));
  }
  for (auto& a : acc) __asm__ volatile("" : : "v"(a));
  return 128.0 * kAccumulators * kRepeats * static_cast<double>(rounds);
}

double Fp32Loop(int64_t rounds) {
  __m512 acc[kAccumulators];
  for (auto& a : acc) a = _mm512_setzero_ps();
  __m512 x = _mm512_set1_ps(1), w = _mm512_set1_ps(0.5f);
  for (int64_t r = 0; r < rounds * kRepeats; ++r) {
#pragma GCC unroll 24
    for (int i = 0; i < kAccumulators; ++i) acc[i] = _mm512_fmadd_ps(x, w, acc[i]);
    __asm__ volatile("" : "+v"(x), "+v"(w));
  }
  for (auto& a : acc) __asm__ volatile("" : : "v"(a));
  return 32.0 * kAccumulators * kRepeats * static_cast<double>(rounds);
}

// Only called where the processor reports AVX512_BF16.
__attribute__((target("avx512bf16"))) double Bf16Loop(int64_t rounds) {
  __m512 acc[kAccumulators];
  for (auto& a : acc) a = _mm512_setzero_ps();
  __m512i x = _mm512_set1_epi16(0x3f80), w = _mm512_set1_epi16(0x3f00);
  for (int64_t r = 0; r < rounds * kRepeats; ++r) {
#pragma GCC unroll 24
    for (int i = 0; i < kAccumulators; ++i)
      acc[i] = _mm512_dpbf16_ps(acc[i], (__m512bh)x, (__m512bh)w);
    __asm__ volatile("" : "+v"(x), "+v"(w));
  }
  for (auto& a : acc) __asm__ volatile("" : : "v"(a));
  return 64.0 * kAccumulators * kRepeats * static_cast<double>(rounds);
}

void Read(const void* data, int64_t bytes) {
  const auto* p = static_cast<const char*>(data);
  __m512i acc[8];
  for (auto& a : acc) a = _mm512_setzero_si512();
  for (int64_t i = 0; i < bytes; i += 512) {
#pragma GCC unroll 8
    for (int k = 0; k < 8; ++k)
      acc[k] = _mm512_or_si512(acc[k], _mm512_loadu_si512(p + i + 64 * k));
  }
  for (auto& a : acc) __asm__ volatile("" : : "v"(a));
}

}  // namespace

const PeakLoops& Avx512PeakLoops() {
  static constexpr PeakLoops kLoops = {
      .int8 = Int8Loop,
      .fp32 = Fp32Loop,
      .bf16 = Bf16Loop,
      .read = Read,
  };
  return kLoops;
}

}  // namespace evoq
