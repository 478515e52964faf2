// Convolutions and transposed ones of few output channels. A product of their pixels with one tap
// leaves most columns of a register tile empty; here all taps stand beside one another as columns
// of one product of the input's pixels, whose results are then added up at the pixels of y:
//   p[i, t, m] = sum over c of x[i, c] * w[t, c, m]
//   y[o, m]    = activation(bias[m] + sum over taps t of p[input pixel of o and t, t, m] +
//                           residual[o, m])
// Taps outside the input are left out. The order of c and t is fixed; nothing depends on bands or
// threads.
#pragma once

#include "kernels/activation.h"
#include "kernels/conv/conv_shape_f32.h"

namespace evoq {

inline constexpr char kTapsBeside[] = "taps beside";  // the name of the variant

// Whether the method takes such a shape: one or two axes, one group.
bool FitsTapsF32(const ConvShapeF32& shape, bool transposed);
// Whether a kernel of this variant goes that way: one that names the method, or one that leaves the
// choice to the kernel where the method is expected to be faster than a product for each tap, or
// with `winograd` than Winograd's method.
bool ChooseTapsF32(const ConvShapeF32& shape, bool transposed, std::string_view variant,
                   bool winograd = false);

// `panels`: the weight in the layout of Conv or ConvTranspose (pack_f32.h).
BoundKernel BindTapsF32(const ConvShapeF32& shape, bool transposed, const float* panels,
                        const Activation& activation, bool has_bias, bool has_residual,
                        const BindOptions& options);

}  // namespace evoq
