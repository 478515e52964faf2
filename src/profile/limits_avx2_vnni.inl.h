// The peaks of AVX-VNNI. Included by instruction-set files, which define EVOQ_DPBUSD and the
// function EVOQ_LOOPS.
#include <immintrin.h>

#include <cstdint>

#include "profile/peak_loops.h"

namespace evoq {
namespace {

// Independent accumulators hide the latency of two dot products per cycle.
constexpr int kAccumulators = 12;
constexpr int kRepeats = 64;

double Int8Loop(int64_t rounds) {
  __m256i acc[kAccumulators];
  for (auto& a : acc) a = _mm256_setzero_si256();
  __m256i x = _mm256_set1_epi8(1), w = _mm256_set1_epi8(2);
  for (int64_t r = 0; r < rounds * kRepeats; ++r) {
#pragma GCC unroll 12
    for (int i = 0; i < kAccumulators; ++i) acc[i] = EVOQ_DPBUSD(acc[i], x, w);
    __asm__ volatile("" : "+x"(x), "+x"(w));
  }
  for (auto& a : acc) __asm__ volatile("" : : "x"(a));
  return 64.0 * kAccumulators * kRepeats * static_cast<double>(rounds);
}

}  // namespace

const PeakLoops& EVOQ_LOOPS() {
  static const PeakLoops kLoops = {
      .int8 = Int8Loop,
      .fp32 = Avx2PeakLoops().fp32,
      .bf16 = nullptr,
      .read = Avx2PeakLoops().read,
  };
  return kLoops;
}

}  // namespace evoq
