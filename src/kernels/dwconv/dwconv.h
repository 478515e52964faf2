// Depthwise convolution, channels last: Conv with group = C = M.
//   acc[n,oy,ox,c] = bias[c] + sum_{i,j} (x[n, oy*sh - ph + i*dh, ox*sw - pw + j*dw, c] - zero_x) * (w[c,0,i,j] - zero_w[c])
// where positions outside x contribute nothing, then the epilogue of kernels/requant.h (int8) or y = activation(acc +
// residual) (float32). x and y are N,H,W,C; one spatial dimension is H = 1.
//
// Weights are packed as layout "taps-c": p[tap][c], c < C rounded up to 16 (zeros beyond C), tap = i * KW + j.
#pragma once

#include <cstdint>

#include "kernels/bounds.h"
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
};

// Arrays over channels are padded to whole blocks.
struct DwInt8Args {
  DwShape shape;
  // [part][block][kx][quad][16][4]: four vertical taps beside each other, zeros past KH. The parts add up to w - zero_w:
  // two where that does not fit int8; null where two do not suffice (w - zero_w = 255).
  const int8_t* quads = nullptr;
  int parts = 1;
  const int16_t* taps = nullptr;   // [tap][C rounded up]: w - zero_w
  const int32_t* bias = nullptr;   // bias[c] - zero_x * sum of the weights of c
  const float* multiplier = nullptr;
  const uint8_t* padding = nullptr;  // C times zero_x: what lies outside x
  OutputBounds bounds;
  bool float_output = false;
  bool has_residual = false;  // uint8 for an integer output, float32 for a float one
  float residual_multiplier = 0;
  int32_t residual_zero = 0;
};

struct DwFloatArgs {
  DwShape shape;
  const float* taps = nullptr;     // [tap][C rounded up]
  const float* bias = nullptr;
  const float* padding = nullptr;  // C zeros
  OutputBounds bounds;
};

struct DwTable {
  // Output rows [begin, end) of batch * OH.
  void (*int8_rows)(const DwInt8Args& args, const uint8_t* x, const void* residual, void* y, int64_t begin, int64_t end);
  void (*float_rows)(const DwFloatArgs& args, const float* x, const float* residual, float* y, int64_t begin, int64_t end);
};
EVOQ_ISA_TABLE(DwTable)

}  // namespace evoq
