// A 6 x 16 tile: 12 accumulators, the panel's two vectors and one broadcast of the 16 registers.
#include <immintrin.h>

#include "kernels/gemm/gemm_float_finish_avx2.inl.h"

namespace evoq {
namespace {

template <int kRows>
void Tile(const GemmTile& t) {
  __m256 acc[kRows][2];
  const __m256i mask[2] = {ColumnMask(t, 0), ColumnMask(t, 1)};
  Start(t, mask, acc);
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
  Finish(t, mask, acc);
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
    .lane_rows = 0,
    .lane_tile = {}};

}  // namespace evoq
