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

// Asks for the 16 columns of each of the tile's rows in `of`, bytes of 1 << shift an element.
template <int kRows>
[[gnu::always_inline]] inline void FetchRows(const GemmTile& t, const void* of, int shift) {
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r)
    _mm_prefetch(static_cast<const char*>(of) + (t.row_offset[r] << shift), _MM_HINT_T0);
}

// What the accumulators start from. The lines that are read and written at the end arrive while the
// sums are computed: a tile touches one line of each row, which the processor does not foresee.
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
  if (t.output != TileOutput::kSums)
    FetchRows<kRows>(t, t.y, t.output == TileOutput::kBfloat16 ? 1 : 2);
  if (t.last && t.residual != nullptr) FetchRows<kRows>(t, t.residual, t.residual_bf16 ? 1 : 2);
}

// f(v) of each register.
template <int kRows, typename F>
[[gnu::always_inline]] inline void Each(__m256 (&v)[kRows][2], const F& f) {
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int h = 0; h < 2; ++h) v[r][h] = f(v[r][h]);
  }
}

template <int kRows>
[[gnu::always_inline]] inline void Activate(const GemmTile& t, __m256 (&all)[kRows][2]) {
  const __m256 zero = _mm256_setzero_ps(), low = _mm256_set1_ps(t.low),
               high = _mm256_set1_ps(t.high);
  // v stands second, where max and min keep a NaN.
  switch (t.activation) {
    case TileActivation::kNone: return;
    case TileActivation::kRelu: return Each(all, [&](__m256 v) { return _mm256_max_ps(zero, v); });
    case TileActivation::kClamp:
      return Each(all, [&](__m256 v) { return _mm256_min_ps(high, _mm256_max_ps(low, v)); });
    case TileActivation::kLeaky:
      return Each(all, [&](__m256 v) {
        return _mm256_blendv_ps(v, _mm256_mul_ps(v, low), _mm256_cmp_ps(v, zero, _CMP_LT_OQ));
      });
  }
}

// The columns of `mask` among eight bfloat16 from x on. Out of line: few tiles end with bfloat16.
[[gnu::noinline]] inline __m256 LoadBf16(const uint16_t* x, __m256i mask) {
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
[[gnu::noinline]] inline void StoreBf16(uint16_t* y, __m256i mask, __m256 v) {
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

// f(y or residual offset, half, v) of each register.
template <int kRows, typename F>
[[gnu::always_inline]] inline void EachPlace(const GemmTile& t, __m256 (&v)[kRows][2], const F& f) {
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int h = 0; h < 2; ++h) f(t.row_offset[r] + h * 8, h, v[r][h]);
  }
}

template <int kRows>
[[gnu::always_inline]] inline void AddResiduals(const GemmTile& t, const __m256i (&mask)[2],
                                                __m256 (&v)[kRows][2]) {
  if (t.residual_bf16) {
    const auto* residual = static_cast<const uint16_t*>(t.residual);
    EachPlace(t, v, [&](int64_t at, int h, __m256& one) {
      one = _mm256_add_ps(one, LoadBf16(residual + at, mask[h]));
    });
  } else {
    const auto* residual = static_cast<const float*>(t.residual);
    EachPlace(t, v, [&](int64_t at, int h, __m256& one) {
      one = _mm256_add_ps(one, _mm256_maskload_ps(residual + at, mask[h]));
    });
  }
}

// From the sums to what the tile writes.
template <int kRows>
[[gnu::always_inline]] inline void Finish(const GemmTile& t, const __m256i (&mask)[2],
                                          __m256 (&v)[kRows][2]) {
  if (t.last) {
    if (t.residual != nullptr) AddResiduals(t, mask, v);
    Activate(t, v);
  }
  if (t.output == TileOutput::kSums) {
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
      _mm256_storeu_ps(t.sums + r * t.sums_step, v[r][0]);
      _mm256_storeu_ps(t.sums + r * t.sums_step + 8, v[r][1]);
    }
  } else if (t.output == TileOutput::kFloat32) {
    auto* y = static_cast<float*>(t.y);
    EachPlace(t, v, [&](int64_t at, int h, __m256& one) { StoreFloats(y + at, mask[h], one); });
  } else {
    auto* y = static_cast<uint16_t*>(t.y);
    EachPlace(t, v, [&](int64_t at, int h, __m256& one) { StoreBf16(y + at, mask[h], one); });
  }
}

}  // namespace
}  // namespace evoq
