// The exact product of pairs that AVX2 tiles without VNNI share. Included inside instruction-set
// files only.
#pragma once

#include <immintrin.h>

namespace evoq {
namespace {

// acc += a * w, kept from being reordered with other sums: compilers would hold the products and
// spill the accumulators.
inline void AddProduct(__m256i& acc, __m256i a, __m256i w) {
  acc = _mm256_add_epi32(acc, _mm256_madd_epi16(a, w));
  asm("" : "+x"(acc));
}

}  // namespace
}  // namespace evoq
