#include <immintrin.h>

#include <cstdint>

#include "profile/peak_loops.h"

namespace evoq {
namespace {

constexpr int kAccumulators = 12;
constexpr int kRepeats = 64;

// The fewest instructions for exact products of bytes without VNNI: two that multiply, and an
// addition, for 32 products.
double Int8Loop(int64_t rounds) {
  __m256i acc[kAccumulators];
  for (auto& a : acc) a = _mm256_setzero_si256();
  __m256i x = _mm256_set1_epi8(1), w = _mm256_set1_epi8(2), ones = _mm256_set1_epi16(1);
  for (int64_t r = 0; r < rounds * kRepeats; ++r) {
#pragma GCC unroll 12
    for (int i = 0; i < kAccumulators; ++i) {
      __asm__ volatile("" : "+x"(x), "+x"(w));  // or else the product is taken out of the loop
      acc[i] = _mm256_add_epi32(acc[i], _mm256_madd_epi16(_mm256_maddubs_epi16(x, w), ones));
    }
  }
  for (auto& a : acc) __asm__ volatile("" : : "x"(a));
  return 64.0 * kAccumulators * kRepeats * static_cast<double>(rounds);
}

double Fp32Loop(int64_t rounds) {
  __m256 acc[kAccumulators];
  for (auto& a : acc) a = _mm256_setzero_ps();
  __m256 x = _mm256_set1_ps(1), w = _mm256_set1_ps(0.5f);
  for (int64_t r = 0; r < rounds * kRepeats; ++r) {
#pragma GCC unroll 12
    for (int i = 0; i < kAccumulators; ++i) acc[i] = _mm256_fmadd_ps(x, w, acc[i]);
    __asm__ volatile("" : "+x"(x), "+x"(w));
  }
  for (auto& a : acc) __asm__ volatile("" : : "x"(a));
  return 16.0 * kAccumulators * kRepeats * static_cast<double>(rounds);
}

void Read(const void* data, int64_t bytes) {
  const auto* p = static_cast<const char*>(data);
  __m256i acc[8];
  for (auto& a : acc) a = _mm256_setzero_si256();
  for (int64_t i = 0; i < bytes; i += 256) {
#pragma GCC unroll 8
    for (int k = 0; k < 8; ++k)
      acc[k] = _mm256_or_si256(
          acc[k], _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + i + 32 * k)));
  }
  for (auto& a : acc) __asm__ volatile("" : : "x"(a));
}

}  // namespace

const PeakLoops& Avx2PeakLoops() {
  static constexpr PeakLoops kLoops = {
      .int8 = Int8Loop,
      .fp32 = Fp32Loop,
      .bf16 = nullptr,
      .read = Read,
  };
  return kLoops;
}

}  // namespace evoq
