// What a float32 Conv or ConvTranspose call computes, read from its types and attributes.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "kernels/kernel.h"

namespace evoq {

// A convolution as the two operators describe it; [0] is the outermost axis.
struct ConvShapeF32 {
  int64_t batch = 1, channels_in = 1, channels_out = 1, group = 1;
  std::array<int64_t, 3> in = {1, 1, 1}, out = {1, 1, 1}, kernel = {1, 1, 1};
  std::array<int64_t, 3> stride = {1, 1, 1}, pad = {0, 0, 0}, dilation = {1, 1, 1};

  int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
  int64_t depth() const { return channels_in / group; }
  int64_t columns() const { return channels_out / group; }
  // Of a ConvTranspose: output pixels whose places are equal modulo the strides.
  int64_t phases() const { return stride[0] * stride[1] * stride[2]; }
  std::array<int64_t, 3> phase(int64_t i) const {
    return {i / stride[2] / stride[1], i / stride[2] % stride[1], i % stride[2]};
  }
};

// Reads the shape of a Conv or (`transposed`) ConvTranspose call, or says why these kernels do not
// take it. Checks ranks, sizes, attributes, the types of all inputs and that a ConvTranspose has at
// most 4096 phases.
std::optional<Reason> ReadConvShape(const KernelCall& call, bool transposed, ConvShapeF32& shape);
// The same for a call with x, w and y of any types.
std::optional<Reason> ReadConvSizes(const KernelCall& call, bool transposed, ConvShapeF32& shape);

}  // namespace evoq
