// The bfloat16 micro-kernel in plain C++: pairs are widened to float32, one rounding per
// multiplication and per addition.
#include "kernels/gemm/gemm_float_finish_scalar.inl.h"
#include "kernels/gemm/pair_layout.inl.h"

namespace evoq {
namespace {

inline float Element(const float* pair, int half) {
  uint32_t bits;
  std::memcpy(&bits, pair, sizeof(bits));
  bits = half == 0 ? bits << 16 : bits & 0xffff0000u;
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

template <int kRows>
void Tile(const GemmTile& t) {
  float v[kRows][kPanelF32];
  for (int r = 0; r < kRows; ++r) StartRow(t, r, v[r]);
  for (int64_t tap = 0; tap < t.tap_count; ++tap) {
    const float* b = t.b + t.taps[tap].b;
    for (int64_t k = 0; k < t.depth; ++k, b += kPanelF32) {
      for (int half = 0; half < 2; ++half) {
        for (int r = 0; r < kRows; ++r) {
          const float a = Element(t.rows[tap * t.row_stride + r] + t.taps[tap].a + k, half);
          for (int n = 0; n < kPanelF32; ++n) v[r][n] += a * Element(b + n, half);
        }
      }
    }
  }
  for (int r = 0; r < kRows; ++r) FinishRow(t, r, v[r]);
}

}  // namespace

const GemmKernels kGemmKernelsBf16Scalar = {.name = "scalar",
                                            .rows = 2,
                                            .panels = 1,
                                            .few_rows = 2,
                                            .few_rows_panels = 1,
                                            .one_panel_rows = 2,
                                            .tile = {{}, {nullptr, Tile<1>, Tile<2>}},
                                            .lane_rows = 0,
                                            .lane_tile = {}};
const PairLayout kPairLayoutScalar = {.pair_rows = PairRows, .copy_runs = CopyRuns};

}  // namespace evoq
