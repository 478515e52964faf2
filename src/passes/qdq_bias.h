// The int32 bias of a linear operator on quantized values.
#pragma once

#include "passes/match.h"

namespace evoq {

// The constant bias, float or quantized, as plain int32 at scale s_x * s_w[c]: integers whose scale
// is that already stay as they are, others are rounded to nearest even. Nothing when it is not
// constant, has another length or does not fit int32.
std::optional<Tensor> IntegerBias(const Tensor& bias, const QuantParams& x, const QuantParams& w,
                                  int64_t channels);

// Weights whose scales are too small for the bias (a dead channel: next to no weights, some bias)
// with these scales raised until |bias| <= 2^30 s_x s_w and the integers rounded anew; nothing when
// all fit. One scale for all becomes one for each index of `axis`, that of the output channels (-1:
// there is none, and nothing is raised). The change of the output is below 2^-24 of the bias.
std::optional<Tensor> WeightsForBias(const Tensor& weights, const Tensor& bias,
                                     const QuantParams& x, int axis);

// Whether int32 holds, for every data of the type `x` (8 bits), each sum of the node's product and
// its bias, int32 or not defined. `weights` are constant integers of up to 8 bits.
bool SumsFit(const Node& node, const Tensor& weights, const Tensor& bias, const TensorType& x);

// The largest power of two, at most kMostFinerFactor, by which integers from `low` to `high`, 0
// among them, still are numbers of the 8-bit type.
inline constexpr int32_t kMostFinerFactor = 64;
int32_t FinerFactor(int64_t low, int64_t high, DType wide);

// Weights of fewer than 8 bits, also those that lie in bytes, as the same real numbers in 8 bits:
// integers and zero points times their FinerFactor, scales divided by it. The steps of the sums, to
// which a bias is rounded, are finer by as much. Nothing where they leave no room.
std::optional<Tensor> FinerWeights(const Tensor& weights);

}  // namespace evoq
