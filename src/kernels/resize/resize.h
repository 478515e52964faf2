// Resize along up to three spatial axes: nearest and linear (two taps an axis), channels last or
// first.
//
// Axes are interpolated one after the other in ascending order, an axis that keeps its size under
// scale 1 being left alone: t[o] = weight[2o] * x[index[2o]] + weight[2o + 1] * x[index[2o + 1]],
// one rounding per written operation. Coordinates are computed in double, weights rounded to
// float32. Quantized values are dequantized, and quantized after.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/isa_table.h"

namespace evoq {

struct AxisTaps;

// Neighbouring outputs of a row of single elements whose taps are among as many neighbours. Small:
// the outputs of a row, which go to memory, would push larger ones out of the first cache.
inline constexpr int kLineBlock = 8;
struct LineBlock {
  int32_t from, to;                             // the first of the inputs, of the outputs
  uint8_t left[kLineBlock], right[kLineBlock];  // each output's taps, from `from` on
  float left_weight[kLineBlock], right_weight[kLineBlock];
};
// A row's blocks, of which the last one may overlap the one before. None where an output's two taps
// lie too far apart for them (an input becomes smaller) or the row is shorter than a block.
std::vector<LineBlock> LineBlocks(const AxisTaps& taps);

struct ResizeTable {
  // y[i] = w0 * a[i] + w1 * b[i].
  void (*blend)(const float* a, const float* b, float w0, float w1, float* y, int64_t n);
  // Bytes dequantized on the way: real(q) = (q - zero) * scale.
  void (*blend_bytes)(const uint8_t* a, const uint8_t* b, float w0, float w1, float scale,
                      int32_t zero, float* y, int64_t n);
  // Pixels of c floats: y[o] = weight[2o] * x[index[2o]] + weight[2o + 1] * x[index[2o + 1]] for o
  // < n.
  void (*blend_pixels)(const float* x, const int64_t* index, const float* weight, float* y,
                       int64_t n, int64_t c);
  // The outputs of the blocks, as blend_pixels makes them of c = 1. 0 and null where that is as
  // fast.
  int line_block;
  void (*blend_line)(const float* x, const LineBlock* blocks, int64_t count, float* y);
};
EVOQ_ISA_TABLE(ResizeTable)

}  // namespace evoq
