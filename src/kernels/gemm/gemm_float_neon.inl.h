// NEON tiles of floating-point products, 16 columns in four registers. Included inside
// instruction-set files, which say what a unit is: Unit::Vector, Load, Broadcast and MulAdd.
#pragma once

#include <arm_neon.h>

#include "kernels/gemm/gemm_float_finish_scalar.inl.h"

namespace evoq {
namespace {

template <typename Unit, int kRows>
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
      typename Unit::Vector w[4];
#pragma GCC unroll 4
      for (int v = 0; v < 4; ++v) w[v] = Unit::Load(b + 4 * v);
#pragma GCC unroll 6
      for (int r = 0; r < kRows; ++r) {
        const typename Unit::Vector x = Unit::Broadcast(a[r] + k);
#pragma GCC unroll 4
        for (int v = 0; v < 4; ++v) acc[r][v] = Unit::MulAdd(acc[r][v], x, w[v]);
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < 4; ++v) vst1q_f32(sums + 4 * v, acc[r][v]);
    FinishRow(t, r, sums);
  }
}

// Tiles of 1 to 6 rows, of which `rows` is the height for many.
template <typename Unit>
constexpr GemmKernels NeonKernels(const char* name, int rows, int speed = 1) {
  return {.name = name,
          .rows = rows,
          .panels = 1,
          .few_rows = rows,
          .few_rows_panels = 1,
          .one_panel_rows = rows,
          .tile = {{},
                   {nullptr, Tile<Unit, 1>, Tile<Unit, 2>, Tile<Unit, 3>, Tile<Unit, 4>,
                    Tile<Unit, 5>, Tile<Unit, 6>}},
          .lane_rows = 0,
          .lane_tile = {},
          .speed = speed};
}

}  // namespace
}  // namespace evoq
