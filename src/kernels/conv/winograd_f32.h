// Winograd's convolution in float32: 3 x 3, stride 1, one group, channels-last. Output tiles of m x
// m pixels are computed from n x n input pixels, n = m + 2, with n^2 products of matrices [tiles,
// C] x [C, M] instead of 9 m^2 / n^2 times as many multiplications (2.25 times for m = 2, 4 times
// for m = 4). winograd_f32_tile.h has the formulas.
#pragma once

#include <memory>

#include "kernels/activation.h"
#include "kernels/conv/conv_ends.h"
#include "kernels/conv/conv_shape_f32.h"
#include "kernels/gemm/gemm_float_tile.h"
#include "kernels/kernel.h"

namespace evoq {

// Whether F(m x m, 3 x 3) computes this convolution.
bool FitsWinogradF32(const ConvShapeF32& shape);

// The faster way for this shape, by a rule on sizes alone: 0 for the sum over all taps, which
// multiplies `direct` times as fast as float32 does, 2 or 4 for m.
int ChooseWinogradF32(const ConvShapeF32& shape, double direct = 1);

// weights: in layout k1n16-conv-f32, those of `constant`; read here only. Requires FitsWinogradF32.
// m is 2 or 4.
BoundKernel BindWinogradF32(const ConvShapeF32& shape, int m, const Tensor& constant,
                            const float* weights, const Activation& activation, bool has_bias,
                            bool has_residual, const BindOptions& options,
                            const ConvEnds& ends = {});

}  // namespace evoq
