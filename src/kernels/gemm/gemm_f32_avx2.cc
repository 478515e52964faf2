// A 6 x 16 tile: 12 accumulators, the panel's two vectors and one broadcast of the 16 registers.
#include <immintrin.h>

#include "kernels/gemm/gemm_f32_tile.h"

namespace evoq {
namespace {

// All ones in lane i when column half * 8 + i is to be written.
inline __m256i ColumnMask(const GemmTileF32& t, int half) {
  const __m256i lane =
      _mm256_add_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32(half * 8));
  const __m256i from =
      _mm256_cmpgt_epi32(lane, _mm256_set1_epi32(static_cast<int>(t.column_begin) - 1));
  const __m256i to = _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(t.column_end)), lane);
  return _mm256_and_si256(from, to);
}

inline __m256 Activate(const GemmTileF32& t, __m256 v) {
  // v stands second, where max and min keep a NaN.
  if (t.activation == TileActivationF32::kRelu) return _mm256_max_ps(_mm256_setzero_ps(), v);
  const __m256 low = _mm256_set1_ps(t.low);
  if (t.activation == TileActivationF32::kClamp)
    return _mm256_min_ps(_mm256_set1_ps(t.high), _mm256_max_ps(low, v));
  const __m256 negative = _mm256_cmp_ps(v, _mm256_setzero_ps(), _CMP_LT_OQ);
  return _mm256_blendv_ps(v, _mm256_mul_ps(v, low), negative);
}

template <int kRows>
void Tile(const GemmTileF32& t) {
  __m256 acc[kRows][2];
  const __m256i mask[2] = {ColumnMask(t, 0), ColumnMask(t, 1)};
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int h = 0; h < 2; ++h) {
      if (t.accumulate) {
        acc[r][h] = _mm256_loadu_ps(t.sums + r * 16 + h * 8);
      } else {
        acc[r][h] =
            t.bias == nullptr ? _mm256_setzero_ps() : _mm256_maskload_ps(t.bias + h * 8, mask[h]);
      }
    }
  }
  const int64_t depth = t.depth, b_step = t.b_step;
  for (int64_t tap = 0; tap < t.tap_count; ++tap) {
    const float* a[kRows];
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) a[r] = t.rows[tap * t.row_stride + r] + t.taps[tap].a;
    const float* b = t.b + t.taps[tap].b;
    for (int64_t k = 0; k < depth; ++k) {
      const __m256 b0 = _mm256_loadu_ps(b), b1 = _mm256_loadu_ps(b + 8);
      b += b_step;
#pragma GCC unroll 6
      for (int r = 0; r < kRows; ++r) {
        const __m256 va = _mm256_broadcast_ss(a[r] + k);
        acc[r][0] = _mm256_fmadd_ps(va, b0, acc[r][0]);
        acc[r][1] = _mm256_fmadd_ps(va, b1, acc[r][1]);
      }
    }
  }
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int h = 0; h < 2; ++h) {
      __m256 v = acc[r][h];
      if (!t.last) {
        _mm256_storeu_ps(t.sums + r * 16 + h * 8, v);
        continue;
      }
      if (t.residual != nullptr)
        v = _mm256_add_ps(v, _mm256_maskload_ps(t.residual + t.row_offset[r] + h * 8, mask[h]));
      if (t.activation != TileActivationF32::kNone) v = Activate(t, v);
      _mm256_maskstore_ps(t.c + t.row_offset[r] + h * 8, mask[h], v);
    }
  }
}

}  // namespace

const GemmKernelsF32 kGemmKernelsF32Avx2 = {
    "avx2 6x16",
    6,
    1,
    6,
    1,
    6,
    {{}, {nullptr, Tile<1>, Tile<2>, Tile<3>, Tile<4>, Tile<5>, Tile<6>}, {}, {}, {}},
    0,
    {}};

}  // namespace evoq
