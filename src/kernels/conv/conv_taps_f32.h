// Float32 and bfloat16 convolutions by tap_sums.h:
//   y[o, m] = activation(bias[m] + the sum over taps + residual[o, m])
#pragma once

#include "kernels/activation.h"
#include "kernels/conv/conv_ends.h"
#include "kernels/conv/tap_sums.h"

namespace evoq {

// Whether a kernel of this variant goes that way: one that names the method, or one that leaves the
// choice to the kernel where the method is expected to be faster than a product for each tap, or
// with `winograd` than Winograd's method. Products are `speed` times as fast as float32's.
bool ChooseTapsF32(const ConvShapeF32& shape, bool transposed, std::string_view variant,
                   bool winograd = false, double speed = 1);

// `panels`: the weight in float32 in the layout of Conv or ConvTranspose (pack_f32.h). Where x is
// bfloat16, which takes an even number of input channels, so are they in truth.
BoundKernel BindTapsF32(const ConvShapeF32& shape, bool transposed, const float* panels,
                        const Activation& activation, bool has_bias, bool has_residual,
                        const BindOptions& options, const ConvEnds& ends = {});

}  // namespace evoq
