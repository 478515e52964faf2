// The sliding window of convolution and pooling along each spatial dimension.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "tensor/attrs.h"

namespace evoq {

// Output o reads inputs o * stride - pad + i * dilation for i < kernel; positions outside [0, in)
// are padding.
struct WindowDim {
  int64_t in = 1;
  int64_t out = 1;
  int64_t kernel = 1;
  int64_t stride = 1;
  int64_t dilation = 1;
  int64_t pad = 0;  // at the beginning
  int64_t pad_end = 0;

  // The taps [begin, end) that lie inside the input, for output o.
  int64_t TapBegin(int64_t o) const {
    const int64_t start = o * stride - pad;
    return start >= 0 ? 0 : std::min(kernel, (-start + dilation - 1) / dilation);
  }
  int64_t TapEnd(int64_t o) const {
    const int64_t start = o * stride - pad;
    if (start + (kernel - 1) * dilation < in) return kernel;
    if (start >= in) return 0;
    return std::min(kernel, (in - 1 - start) / dilation + 1);
  }
  // The taps that lie inside the input or its padding: with ceil_mode a window may reach past both.
  int64_t PaddedTaps(int64_t o) const {
    const int64_t room = in + pad_end - (o * stride - pad);
    if ((kernel - 1) * dilation < room) return kernel;
    return room <= 0 ? 0 : std::min(kernel, (room - 1) / dilation + 1);
  }
};

// ONNX's strides, pads, dilations and auto_pad with these kernel, input and output sizes, one per
// spatial dimension. Errors: kInvalidInput for a wrong number of values, sizes that do not fit or
// an output larger than its input allows.
Result<std::vector<WindowDim>> WindowFromAttrs(const Attrs& attrs,
                                               const std::vector<int64_t>& kernel,
                                               const std::vector<int64_t>& in,
                                               const std::vector<int64_t>& out);

}  // namespace evoq
