// Eight rows of eight 32-bit numbers, transposed in registers. Included inside instruction-set
// files with AVX2 or better only.
#pragma once

#include <immintrin.h>

namespace evoq {
namespace {

// Row i of `to` is column i of `from`.
inline void Transpose8(const __m256i* from, __m256i* to) {
  __m256i pairs[8], fours[8];
#pragma GCC unroll 4
  for (int i = 0; i < 8; i += 2) {
    pairs[i] = _mm256_unpacklo_epi32(from[i], from[i + 1]);
    pairs[i + 1] = _mm256_unpackhi_epi32(from[i], from[i + 1]);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 8; i += 4) {
#pragma GCC unroll 2
    for (int j = 0; j < 2; ++j) {
      fours[i + 2 * j] = _mm256_unpacklo_epi64(pairs[i + j], pairs[i + j + 2]);
      fours[i + 2 * j + 1] = _mm256_unpackhi_epi64(pairs[i + j], pairs[i + j + 2]);
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    to[i] = _mm256_permute2x128_si256(fours[i], fours[i + 4], 0x20);
    to[i + 4] = _mm256_permute2x128_si256(fours[i], fours[i + 4], 0x31);
  }
}

}  // namespace
}  // namespace evoq
