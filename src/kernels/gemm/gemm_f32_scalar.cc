// The float32 micro-kernel in plain C++: one rounding per multiplication and per addition.
#include "kernels/gemm/gemm_float_finish_scalar.inl.h"

namespace evoq {
namespace {

template <int kRows>
void Tile(const GemmTile& t) {
  float v[kRows][kPanelF32];
  for (int r = 0; r < kRows; ++r) StartRow(t, r, v[r]);
  for (int64_t tap = 0; tap < t.tap_count; ++tap) {
    const float* b = t.b + t.taps[tap].b;
    for (int64_t k = 0; k < t.depth; ++k, b += t.b_step) {
      for (int r = 0; r < kRows; ++r) {
        const float a = t.rows[tap * t.row_stride + r][t.taps[tap].a + k];
        for (int n = 0; n < kPanelF32; ++n) v[r][n] += a * b[n];
      }
    }
  }
  for (int r = 0; r < kRows; ++r) FinishRow(t, r, v[r]);
}

}  // namespace

const GemmKernels kGemmKernelsF32Scalar = {.name = "scalar",
                                           .rows = 2,
                                           .panels = 1,
                                           .few_rows = 2,
                                           .few_rows_panels = 1,
                                           .one_panel_rows = 2,
                                           .tile = {{}, {nullptr, Tile<1>, Tile<2>}},
                                           .lane_rows = 0,
                                           .lane_tile = {}};

}  // namespace evoq
