// Windows that slide over spatial axes: convolution and pooling.
#pragma once

#include <span>
#include <vector>

#include "ops/op.h"

namespace evoq {

// One entry per spatial axis. Output o reads inputs o * stride + k * dilation - pad_begin for k in
// [0, kernel).
struct Window {
  std::vector<int64_t> kernel, strides, dilations, pad_begin, pad_end;
  std::vector<Dim> output;  // sizes; where the input's is a symbol, one made of it (or the same)
};

// The window of a node over an input with these spatial sizes, from the attributes strides,
// dilations, pads and auto_pad (NOTSET, VALID, SAME_UPPER, SAME_LOWER). With `ceil_mode` a last
// partial window counts when it starts inside the input or its leading pad. Pads of SAME are 0
// where the input's size is not known. Errors: kInvalidInput for lists of another length, values
// out of range, or a window larger than the padded input.
Result<Window> ResolveWindow(const Node& node, std::span<const Dim> kernel,
                             std::span<const Dim> input, bool ceil_mode);

// The same for ConvTranspose: output i * stride + k * dilation - pad_begin takes input i;
// attributes output_padding and output_shape apply.
Result<Window> ResolveTransposedWindow(const Node& node, std::span<const Dim> kernel,
                                       std::span<const Dim> input);

// Spatial dimensions (2, 3, ...) of a shape of rank >= 2.
std::span<const Dim> SpatialDims(const Shape& shape);

}  // namespace evoq
