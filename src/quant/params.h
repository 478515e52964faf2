// From ranges and weights to integers and their parameters.
#pragma once

#include <span>

#include "quant/quant.h"

namespace evoq {

// Parameters for values in [range.min, range.max], widened to hold 0 so that 0 is exact:
//   asymmetric: scale = (max - min) / (high - low), zero = round(low - min / scale)
//   symmetric:  scale = max(|min|, |max|) / 127, zero = 0 (int8) or 128 (uint8)
// where [low, high] is the dtype's range. A range that is only 0 gets scale 1; no scale is below
// 2^-60.
QuantParams ActivationParams(Range range, DType dtype, bool symmetric);

// The integers that values take; `is_signed`: about 0, or about the middle of them.
struct LevelBounds {
  int32_t low = 0, high = 0;
};
// As above, of these integers.
QuantParams ActivationParams(Range range, LevelBounds bounds, bool is_signed, bool symmetric);

// At least `scale`, with at most 12 significant bits: scales of int8.
float ShortScale(double scale);

// Weights as symmetric int8: q[k, c] = clamp(round_half_even(w[k, c] / s[c]), -127, 127), s[c] =
// max_k |w[k, c]| / 127 on `axis`, or one scale for all with axis -1. `least_scale` (empty: none)
// has lower bounds of the scales, one per channel or one: QuantizeBias needs them. A channel of
// zeros gets its lower bound, or 1.
Tensor QuantizeWeight(const Tensor& weight, int axis, std::span<const float> least_scale = {});

// By the options' function, whose result is checked to be of the type that it must have.
Tensor Rounded(const QuantizeOptions& options, const WeightRounding& rounding);

// What s_w[c] must be at least so that |bias[c] / (scale_x * s_w[c])| stays below 2^30.
std::vector<float> LeastWeightScales(const Tensor& bias, float scale_x);

// int32 bias[c] = round_half_even(bias[c] / (scale_x * s_w[c])), in double.
Tensor QuantizeBias(const Tensor& bias, float scale_x, const QuantParams& weight);

// The type of such a bias: int32 with the scales scale_x * s_w[c], one where all are equal by
// construction.
TensorType ImpliedBiasType(const Shape& shape, float scale_x, const QuantParams& weight);

// What rounding the weights adds to the mean of each output channel of Conv or MatMul:
//   e[m] = sum_k (s_w[m] q[m, k] - w[m, k]) mean[k's input channel].
// Empty when `means` does not have the operator's input channels.
std::vector<double> WeightErrorMeans(const Node& node, const Tensor& weight,
                                     const Tensor& quantized, std::span<const float> means);

// Smallest and largest element. Errors: kInvalidInput for a NaN or an infinity.
Result<Range> RangeOf(const Tensor& constant);

}  // namespace evoq
