// A 6 x 16 tile: 12 accumulators, the panel's two vectors and one broadcast of the 16 registers.
// Lane tiles of the same size: eight columns of a row read one group's k, which is broadcast, or
// those of narrower groups, which a permutation finds among eight units.
#include <immintrin.h>

#include "kernels/gemm/gemm_float_finish_avx2.inl.h"

namespace evoq {
namespace {

template <int kRows>
void Tile(const GemmTile& t) {
  __m256 acc[kRows][2];
  const __m256i mask[2] = {ColumnMask(t, 0), ColumnMask(t, 1)};
  Start(t, mask, acc);
  const float* ahead = t.ahead;
  const int64_t ahead_step = t.ahead_step, depth = t.depth, b_step = t.b_step;
  for (int64_t tap = 0; tap < t.tap_count; ++tap) {
    const float* a[kRows];
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) a[r] = t.rows[tap * t.row_stride + r] + t.taps[tap].a;
    const float* b = t.b + t.taps[tap].b;
    for (int64_t k = 0; k < depth; ++k) {
      const __m256 b0 = _mm256_loadu_ps(b), b1 = _mm256_loadu_ps(b + 8);
      b += b_step;
      _mm_prefetch(reinterpret_cast<const char*>(ahead), _MM_HINT_T1);
      ahead += ahead_step;
#pragma GCC unroll 6
      for (int r = 0; r < kRows; ++r) {
        const __m256 va = _mm256_broadcast_ss(a[r] + k);
        acc[r][0] = _mm256_fmadd_ps(va, b0, acc[r][0]);
        acc[r][1] = _mm256_fmadd_ps(va, b1, acc[r][1]);
      }
    }
  }
  Finish(t, mask, acc);
}

// The eight columns of half `h` all read the same k.
bool OneGroup(const GemmTile& t, int h) { return t.lanes[8 * h] == t.lanes[8 * h + 7]; }

// All ones in lane i where the unit lanes[8 h] + i may be read.
__m256i UnitMask(const GemmTile& t, int h) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(t.lane_words - t.lanes[8 * h]),
                            _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

template <int kRows, bool kOneGroup>
void LaneTile(const GemmTile& t) {
  __m256 acc[kRows][2];
  const __m256i mask[2] = {ColumnMask(t, 0), ColumnMask(t, 1)};
  Start(t, mask, acc);
  // Columns behind the last group are not stored: they may read anything that is there.
  const int64_t from[2] = {t.lanes[0], t.lanes[8] < t.lane_words ? t.lanes[8] : 0};
  __m256i units[2], first[2];
  for (int h = 0; h < 2; ++h) {
    units[h] = UnitMask(t, h);
    first[h] =
        _mm256_sub_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(t.lanes + 8 * h)),
                         _mm256_set1_epi32(t.lanes[8 * h]));
  }
  for (int64_t tap = 0; tap < t.tap_count; ++tap) {
    const float* a[kRows];
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) a[r] = t.rows[tap * t.row_stride + r] + t.taps[tap].a;
    const float* b = t.b + t.taps[tap].b;
    for (int64_t k = 0; k < t.depth; ++k, b += t.b_step) {
#pragma GCC unroll 2
      for (int h = 0; h < 2; ++h) {
        const __m256 vb = _mm256_loadu_ps(b + 8 * h);
        const __m256i lane = _mm256_add_epi32(first[h], _mm256_set1_epi32(static_cast<int>(k)));
#pragma GCC unroll 6
        for (int r = 0; r < kRows; ++r) {
          const float* row = a[r] + from[h];
          const __m256 va = kOneGroup
                                ? _mm256_broadcast_ss(row + k)
                                : _mm256_permutevar8x32_ps(_mm256_maskload_ps(row, units[h]), lane);
          acc[r][h] = _mm256_fmadd_ps(va, vb, acc[r][h]);
        }
      }
    }
  }
  Finish(t, mask, acc);
}

template <int kRows>
void LaneTile(const GemmTile& t) {
  OneGroup(t, 0) && OneGroup(t, 1) ? LaneTile<kRows, true>(t) : LaneTile<kRows, false>(t);
}

}  // namespace

const GemmKernels kGemmKernelsF32Avx2 = {
    .name = "avx2",
    .rows = 6,
    .panels = 1,
    .few_rows = 6,
    .few_rows_panels = 1,
    .one_panel_rows = 6,
    .tile = {{}, {nullptr, Tile<1>, Tile<2>, Tile<3>, Tile<4>, Tile<5>, Tile<6>}},
    .lane_rows = 6,
    .lane_tile = {nullptr, LaneTile<1>, LaneTile<2>, LaneTile<3>, LaneTile<4>, LaneTile<5>,
                  LaneTile<6>}};

}  // namespace evoq
