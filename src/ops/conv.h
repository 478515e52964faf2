// The geometry of convolutions, shared by Conv, ConvTranspose and their integer forms.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "ops/window.h"

namespace evoq {

// Up to three spatial axes; missing leading ones have size 1. Channels are per group.
struct ConvExtents {
  int64_t batch = 1, groups = 1, in_channels = 1, out_channels = 1;
  std::array<int64_t, 3> in{1, 1, 1}, kernel{1, 1, 1}, out{1, 1, 1}, stride{1, 1, 1},
      dilation{1, 1, 1}, pad{0, 0, 0};

  int64_t in_size() const { return in[0] * in[1] * in[2]; }
  int64_t out_size() const { return out[0] * out[1] * out[2]; }
  int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
};

// Of static types that passed inference. `w` is [M, C/group, k...], or [C, M/group, k...] when
// transposed.
Result<ConvExtents> GeometryOf(const Node& node, const Shape& x, const Shape& w, bool transposed);

// The channels of y, by the weight and the group alone, whatever is known of x. Errors:
// kInvalidInput for a group or a rank that the operator does not have and channels that do not
// divide into the groups; kTooLarge for more channels than int64 counts.
Result<Dim> ConvOutputChannels(const Node& node, const Shape& w, bool transposed);

// Shape of y from (symbolic) shapes of x and w. Errors: kInvalidInput for ranks, channels or
// windows that do not fit, those of ConvOutputChannels.
Result<Shape> ConvOutputShape(const Node& node, const Shape& x, const Shape& w, bool transposed);

// OpDef::macs of Conv.
int64_t ConvMacs(const Node& node, std::span<const TensorType> inputs,
                 std::span<const TensorType> outputs);

}  // namespace evoq
