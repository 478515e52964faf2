// What the depthwise rows share: recognizing a depthwise Conv and its sizes.
#pragma once

#include <optional>

#include "base/aligned.h"
#include "kernels/call_util.h"
#include "kernels/dwconv/dwconv.h"

namespace evoq {

// Rejects what is not a channels-last depthwise Conv with one output channel per input channel, 1-D
// or 2-D, with constant weights; says nothing about element types.
std::optional<Reason> RejectUnlessDepthwise(const KernelCall& call);
// The same for integer kernels: they take no single channel, whose taps a matrix product takes as
// one row, and no sums beyond int32.
std::optional<Reason> RejectUnlessInt8Depthwise(const KernelCall& call);

// The size of the square kernel with which kernels/dwconv/dwconv_walk.inl.h, the fast way through
// bytes, takes such windows: smaller ones are filled up with taps of zero. 0: it does not.
int64_t RingKernel(const DwShape& shape);
// Of a call that passed RejectUnlessDepthwise.
Result<DwShape> DwShapeOf(const KernelCall& call);

// Errors: kInvalidInput unless the weights are in the layout taps-c; for `bind`, whose constants
// may come from a file.
Status CheckTaps(const KernelCall& call);

// The weights as layout taps-c; nothing for other inputs.
Result<Tensor> PackDepthwise(const KernelCall& call, size_t input);

// `count` float32 of 0.
AlignedBuffer ZeroFloats(size_t count);

}  // namespace evoq
