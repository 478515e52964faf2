// A 6 x 16 tile of dot products of bfloat16 pairs: 24 accumulators, the panel's four vectors and
// one pair of a of the 32 registers. The unit adds the two products, then the sum, rounding to odd
// and without denormals (Arm's architecture manual, BFDOT; with FEAT_EBF16 the rounding may be
// set).
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
  const int64_t depth = t.depth;
  for (int64_t tap = 0; tap < t.tap_count; ++tap) {
    const float* a[kRows];  // of pairs
#pragma GCC unroll 5
    for (int r = 0; r < kRows; ++r) a[r] = t.rows[tap * t.row_stride + r] + t.taps[tap].a;
    const float* b = t.b + t.taps[tap].b;
    for (int64_t k = 0; k < depth; ++k, b += kPanelF32) {
      bfloat16x8_t w[4];
#pragma GCC unroll 4
      for (int v = 0; v < 4; ++v)
        w[v] = vreinterpretq_bf16_u8(vld1q_u8(reinterpret_cast<const uint8_t*>(b + 4 * v)));
#pragma GCC unroll 5
      for (int r = 0; r < kRows; ++r) {
        const bfloat16x8_t x =
            vreinterpretq_bf16_u32(vld1q_dup_u32(reinterpret_cast<const uint32_t*>(a[r] + k)));
#pragma GCC unroll 4
        for (int v = 0; v < 4; ++v) acc[r][v] = vbfdotq_f32(acc[r][v], w[v], x);
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < 4; ++v) vst1q_f32(sums + 4 * v, acc[r][v]);
    FinishRow(t, r, sums);
  }
}

}  // namespace

const GemmKernels kGemmKernelsBf16Neon = {
    .name = "neon_bf16",
    .rows = 5,
    .panels = 1,
    .few_rows = 5,
    .few_rows_panels = 1,
    .one_panel_rows = 5,
    .tile = {{}, {nullptr, Tile<1>, Tile<2>, Tile<3>, Tile<4>, Tile<5>}},
    .lane_rows = 0,
    .lane_tile = {}};

}  // namespace evoq
