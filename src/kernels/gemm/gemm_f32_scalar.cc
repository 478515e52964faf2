// The float32 micro-kernel in plain C++: one rounding per multiplication and per addition.
#include "kernels/gemm/gemm_f32_tile.h"
#include "kernels/gemm/gemm_float_scalar.inl.h"

namespace evoq {
namespace {

template <int kRows>
void Tile(const GemmTileF32& t) {
  float acc[kRows][kPanelF32] = {};
  for (int r = 0; r < kRows; ++r) {
    if (t.accumulate) {
      for (int n = 0; n < kPanelF32; ++n) acc[r][n] = t.sums[r * kPanelF32 + n];
    } else if (t.bias != nullptr) {
      for (int64_t n = t.column_begin; n < t.column_end; ++n) acc[r][n] = t.bias[n];
    }
  }
  for (int64_t tap = 0; tap < t.tap_count; ++tap) {
    const float* b = t.b + t.taps[tap].b;
    for (int64_t k = 0; k < t.depth; ++k, b += t.b_step) {
      for (int r = 0; r < kRows; ++r) {
        const float a = t.rows[tap * t.row_stride + r][t.taps[tap].a + k];
        for (int n = 0; n < kPanelF32; ++n) acc[r][n] += a * b[n];
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    if (!t.last) {
      for (int n = 0; n < kPanelF32; ++n) t.sums[r * kPanelF32 + n] = acc[r][n];
      continue;
    }
    for (int64_t n = t.column_begin; n < t.column_end; ++n) {
      float v = acc[r][n];
      if (t.residual != nullptr) v += t.residual[t.row_offset[r] + n];
      t.c[t.row_offset[r] + n] = Activate(t, v);
    }
  }
}

}  // namespace

const GemmKernelsF32 kGemmKernelsF32Scalar = {
    "scalar 2x16", 2, 1, 2, 1, 2, {{}, {nullptr, Tile<1>, Tile<2>}, {}, {}, {}}, 0, {}};

}  // namespace evoq
