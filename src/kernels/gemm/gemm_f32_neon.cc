// A 6 x 16 tile: 24 accumulators, the panel's four vectors and one element of a of the 32
// registers.
#include <arm_neon.h>

#include "kernels/gemm/gemm_float_finish_scalar.inl.h"

namespace evoq {
namespace {

template <int kRows>
void Tile(const GemmTile& t) {
  float32x4_t acc[kRows][4];
  float sums[kPanelF32];
  for (int r = 0; r < kRows; ++r) {
    StartRow(t, r, sums);
    for (int v = 0; v < 4; ++v) acc[r][v] = vld1q_f32(sums + 4 * v);
  }
  const int64_t depth = t.depth, b_step = t.b_step;
  for (int64_t tap = 0; tap < t.tap_count; ++tap) {
    const float* a[kRows];
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) a[r] = t.rows[tap * t.row_stride + r] + t.taps[tap].a;
    const float* b = t.b + t.taps[tap].b;
    for (int64_t k = 0; k < depth; ++k, b += b_step) {
      float32x4_t w[4];
#pragma GCC unroll 4
      for (int v = 0; v < 4; ++v) w[v] = vld1q_f32(b + 4 * v);
#pragma GCC unroll 6
      for (int r = 0; r < kRows; ++r) {
        const float32x4_t x = vdupq_n_f32(a[r][k]);
#pragma GCC unroll 4
        for (int v = 0; v < 4; ++v) acc[r][v] = vfmaq_f32(acc[r][v], x, w[v]);
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < 4; ++v) vst1q_f32(sums + 4 * v, acc[r][v]);
    FinishRow(t, r, sums);
  }
}

}  // namespace

const GemmKernels kGemmKernelsF32Neon = {
    .name = "neon",
    .rows = 6,
    .panels = 1,
    .few_rows = 6,
    .few_rows_panels = 1,
    .one_panel_rows = 6,
    .tile = {{}, {nullptr, Tile<1>, Tile<2>, Tile<3>, Tile<4>, Tile<5>, Tile<6>}},
    .lane_rows = 0,
    .lane_tile = {}};

}  // namespace evoq
