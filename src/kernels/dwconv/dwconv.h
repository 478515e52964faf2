// Depthwise convolution, channels last: Conv with group = C = M.
//   acc[n,oy,ox,c] = bias[c] + sum_{i,j} (x[n, oy*sh - ph + i*dh, ox*sw - pw + j*dw, c] - zero_x) *
//   (w[c,0,i,j] - zero_w[c])
// where positions outside x contribute nothing, then the epilogue of kernels/requant.h (int8) or y
// = activation(acc + residual) (float32). x and y are N,H,W,C; one spatial dimension is H = 1.
//
// Weights are packed as layout "taps-c": p[tap][c], c < C rounded up to 16 (zeros beyond C), tap =
// i * KW + j.
#pragma once

#include <cstdint>

#include "kernels/bounds.h"
#include "kernels/gemm/curves_f32.h"
#include "kernels/isa_table.h"
#include "kernels/window.h"

namespace evoq {

inline constexpr int kDwBlock = 16;  // channels computed together

struct DwShape {
  int64_t batch = 0;
  int64_t channels = 0;
  WindowDim h, w;

  int64_t blocks() const { return (channels + kDwBlock - 1) / kDwBlock; }
  int64_t taps() const { return h.kernel * w.kernel; }
  int64_t quads() const { return (h.kernel + 3) / 4; }  // groups of four rows of the kernel
  bool down() const { return h.kernel > w.kernel; }     // the longer side is vertical
};

// The channels that one walk of dwconv_walk.inl.h computes together. With 64 lanes, fewer than 33
// channels leave room for a second output row, fewer than 17 for four.
struct DwRingBlock {
  int64_t channel = 0;   // the first one
  int64_t channels = 0;  // of one row
  int64_t pieces = 1;    // rows
  bool wide = false;     // weights of its channels have a second part that is not 0

  int64_t lanes() const { return 64 / pieces; }  // of one row
};

// Arrays over channels are padded to whole blocks.
struct DwInt8Args {
  DwShape shape;
  // For dwconv_lines.inl.h, null for others: int16 [block][i][group][16][2], the kernel's taps in
  // pairs along its longer side (DwShape::down), i along the other one; zeros past the end.
  const void* pairs = nullptr;
  // For dwconv_bytes.inl.h and `square`: the taps in float32, and how many rows of the kernel may
  // be added up so, exactly; 0 for none.
  const float* float_taps = nullptr;
  bool square = false;  // DwTable::squares, with float_taps and padding_row
  int64_t exact_rows = 0;
  int parts = 1;  // of weights in the ring of 64 lanes, whose sum is w - zero_w; 0: two are too few
  const int16_t* taps = nullptr;  // [tap][C rounded up]: w - zero_w
  const int32_t* bias = nullptr;  // bias[c] - zero_x * sum of the weights of c
  const float* multiplier = nullptr;
  const float* offset =
      nullptr;  // float outputs: added to the product with the multiplier; null: none
  const float* slopes = nullptr;     // v < 0 ? v * slope : v, before the bounds; null: none
  const uint8_t* padding = nullptr;  // C times zero_x: what lies outside x
  // For dwconv_walk.inl.h, null for others: int8, four vertical taps beside each other,
  //   64 lanes: [part][block][kx][quad][4][16][4], in the order of dwconv_ring.inl.h; the parts add
  //   up to w - zero_w
  //   16 lanes: [block][kx][quad][16][4]
  const void* ring = nullptr;
  int64_t ring_lanes = 64;
  const uint8_t* ring_wide = nullptr;  // 64 lanes: [block], DwRingBlock::wide
  // 64 lanes: the bias, [block][4][16], in that order. 16 lanes: what is added to `bias`, as
  // activations are taken less 128.
  const int32_t* ring_bias = nullptr;
  const float* ring_multiplier = nullptr;  // 64 lanes: the same order
  const uint8_t* padding_row = nullptr;    // a row of x of zero_x
  bool real = false;                       // float output, no slopes, in the ring
  float* range = nullptr;  // of `real` outputs, where not null: 16 lows and 16 highs to widen by
                           // them, without NaNs
  bool plain =
      false;  // uint8 output, no residual, no slopes, any sum times its multiplier is within 2^30
  OutputBounds bounds;  // but for its slope
  bool float_output = false;
  bool has_residual = false;  // uint8 for an integer output, float32 for a float one
  float residual_multiplier = 0;
  int32_t residual_zero = 0;

  DwRingBlock block(int64_t index) const {
    const int64_t left = shape.channels - ring_lanes * index,
                  channels = left < ring_lanes ? left : ring_lanes;
    const bool wide = ring_wide != nullptr && ring_wide[index] != 0;
    const int64_t pieces = ring_lanes < 64 || channels > 32 ? 1 : channels > 16 ? 2 : 4;
    return {ring_lanes * index, channels, pieces, wide};
  }
};

struct DwFloatArgs {
  DwShape shape;
  const float* taps = nullptr;  // [tap][C rounded up]
  const float* bias = nullptr;
  const void* zeros = nullptr;  // a pixel of zeros, what lies beside x, padded too
  OutputBounds bounds;
  // Where not null: the activation, instead of the bounds.
  CurveF32 curve = nullptr;
  // Of bfloat16, where not null: element i of y is float32, unrounded, at wide[i]; y has the same
  // address, and is not written.
  float* wide = nullptr;
};

struct DwTable {
  // Output rows [begin, end) of batch * OH.
  void (*int8_rows)(const DwInt8Args& args, const uint8_t* x, const void* residual, void* y,
                    int64_t begin, int64_t end);
  void (*float_rows)(const DwFloatArgs& args, const float* x, const float* residual, float* y,
                     int64_t begin, int64_t end);
  // How int8_rows takes square kernels of 3, 5 and 7: by dwconv_walk.inl.h with blocks of 16 or 64
  // lanes (0: not so), or in float32.
  int ring_lanes = 0;
  bool squares = false;
  // How it takes others: by dwconv_lines.inl.h or dwconv_bytes.inl.h.
  bool pair_lines = false, float_lines = false;
};
namespace scalar {
extern const DwTable kDwTable;
}
namespace avx2 {
extern const DwTable kDwTable;
}
namespace avx512 {
extern const DwTable kDwTable;
}
namespace neon_dot {
extern const DwTable kDwTable;
}
inline constexpr IsaRow<DwTable> DwTableRows[] = {
#if defined(__x86_64__)
    {.needs = Isa::kAvx512, .table = &avx512::kDwTable},
    {.needs = Isa::kAvx2, .table = &avx2::kDwTable},
#elif defined(__aarch64__)
    {.needs = Isa::kNeonDot, .table = &neon_dot::kDwTable},
#endif
    {.needs = Isa::kScalar, .table = &scalar::kDwTable}};
EVOQ_ISA_CHOICE(DwTable)

// The same rows of bfloat16 values: taps, bias and sums in float32, y rounded once.
struct DwBf16Table {
  void (*rows)(const DwFloatArgs& args, const uint16_t* x, const uint16_t* residual, uint16_t* y,
               int64_t begin, int64_t end);
};
EVOQ_ISA_TABLE(DwBf16Table)

}  // namespace evoq
