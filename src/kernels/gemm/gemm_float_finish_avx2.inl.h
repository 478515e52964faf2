// How AVX2 tiles of floating-point products start and end: one panel, a row in two registers.
// Included inside instruction-set files only.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/gemm/gemm_float_tile.h"

namespace evoq {
namespace {

// All ones in lane i where column 8 half + i is to be written.
inline __m256i ColumnMask(const GemmTile& t, int half) {
  const __m256i lane =
      _mm256_add_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32(half * 8));
  const __m256i from =
      _mm256_cmpgt_epi32(lane, _mm256_set1_epi32(static_cast<int>(t.column_begin) - 1));
  const __m256i to = _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(t.column_end)), lane);
  return _mm256_and_si256(from, to);
}

// What the accumulators start from.
template <int kRows>
[[gnu::always_inline]] inline void Start(const GemmTile& t, const __m256i (&mask)[2],
                                         __m256 (&acc)[kRows][2]) {
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int h = 0; h < 2; ++h) {
      if (t.accumulate) {
        acc[r][h] = _mm256_loadu_ps(t.sums + r * t.sums_step + h * 8);
      } else {
        acc[r][h] =
            t.bias == nullptr ? _mm256_setzero_ps() : _mm256_maskload_ps(t.bias + h * 8, mask[h]);
      }
    }
  }
}

inline __m256 Activate(const GemmTile& t, __m256 v) {
  // v stands second, where max and min keep a NaN.
  if (t.activation == TileActivation::kRelu) return _mm256_max_ps(_mm256_setzero_ps(), v);
  const __m256 low = _mm256_set1_ps(t.low);
  if (t.activation == TileActivation::kClamp)
    return _mm256_min_ps(_mm256_set1_ps(t.high), _mm256_max_ps(low, v));
  const __m256 negative = _mm256_cmp_ps(v, _mm256_setzero_ps(), _CMP_LT_OQ);
  return _mm256_blendv_ps(v, _mm256_mul_ps(v, low), negative);
}

// The columns of `mask` among eight bfloat16 from x on.
inline __m256 LoadBf16(const uint16_t* x, __m256i mask) {
  alignas(16) uint16_t few[8] = {};
  __m128i bits;
  if (_mm256_movemask_epi8(mask) == -1) {
    bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(x));
  } else {
    const int wanted = _mm256_movemask_ps(_mm256_castsi256_ps(mask));
    for (int i = 0; i < 8; ++i) {
      if (wanted >> i & 1) few[i] = x[i];
    }
    bits = _mm_load_si128(reinterpret_cast<const __m128i*>(few));
  }
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}

// The columns of `mask` as bfloat16, to nearest, ties to even.
inline void StoreBf16(uint16_t* y, __m256i mask, __m256 v) {
  const __m256i bits = _mm256_castps_si256(v), high = _mm256_srli_epi32(bits, 16);
  const __m256i odd = _mm256_and_si256(high, _mm256_set1_epi32(1));
  const __m256i rounded = _mm256_srli_epi32(
      _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff))), 16);
  const __m256i quiet = _mm256_or_si256(high, _mm256_set1_epi32(0x40));
  const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
  const __m256i words = _mm256_blendv_epi8(rounded, quiet, nan);
  const __m256i packed =
      _mm256_permute4x64_epi64(_mm256_packus_epi32(words, words), _MM_SHUFFLE(3, 1, 2, 0));
  if (_mm256_movemask_epi8(mask) == -1) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(y), _mm256_castsi256_si128(packed));
    return;
  }
  alignas(16) uint16_t few[8];
  _mm_store_si128(reinterpret_cast<__m128i*>(few), _mm256_castsi256_si128(packed));
  const int wanted = _mm256_movemask_ps(_mm256_castsi256_ps(mask));
  for (int i = 0; i < 8; ++i) {
    if (wanted >> i & 1) y[i] = few[i];
  }
}

// The columns of `mask`. Masked stores are microcode on AMD's processors (Zen 2 and 3: 12 cycles
// each), and where nothing is to be written they may fault for nothing.
inline void StoreFloats(float* y, __m256i mask, __m256 v) {
  const int columns = _mm256_movemask_ps(_mm256_castsi256_ps(mask));
  if (columns == 0xff) {
    _mm256_storeu_ps(y, v);
  } else if (columns != 0) {
    _mm256_maskstore_ps(y, mask, v);
  }
}

// From the sums to what the tile writes.
template <int kRows>
[[gnu::always_inline]] inline void Finish(const GemmTile& t, const __m256i (&mask)[2],
                                          const __m256 (&acc)[kRows][2]) {
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int h = 0; h < 2; ++h) {
      __m256 v = acc[r][h];
      const int64_t at = t.row_offset[r] + h * 8;
      if (t.last && t.residual != nullptr) {
        v = _mm256_add_ps(
            v, t.residual_bf16
                   ? LoadBf16(static_cast<const uint16_t*>(t.residual) + at, mask[h])
                   : _mm256_maskload_ps(static_cast<const float*>(t.residual) + at, mask[h]));
      }
      if (t.last && t.activation != TileActivation::kNone) v = Activate(t, v);
      if (t.output == TileOutput::kSums) {
        _mm256_storeu_ps(t.sums + r * t.sums_step + h * 8, v);
      } else if (t.output == TileOutput::kFloat32) {
        StoreFloats(static_cast<float*>(t.y) + at, mask[h], v);
      } else {
        StoreBf16(static_cast<uint16_t*>(t.y) + at, mask[h], v);
      }
    }
  }
}

}  // namespace
}  // namespace evoq
