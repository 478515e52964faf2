// Weights of fewer than 8 bits under integer arithmetic (graph/weight_bits.h): which layers have
// them, and how they are rounded.
#pragma once

#include "graph/weight_bits.h"
#include "quant/quant.h"

namespace evoq {

// Of the option --weight-bits or --activation-bits, given so often: "4" (of all layers) or
// "PATTERN=2". Errors: kUsage for others, naming the option.
Result<std::vector<LayerBits>> ParseWeightBits(const std::vector<std::string>& given);
Result<std::vector<LayerBits>> ParseActivationBits(const std::vector<std::string>& given);

// Whether some layers' weights are their signs, one bit each.
bool HasSigns(std::span<const LayerBits> rules);

// Of the layer of this name, by the last rule that matches; 8 where none does.
int BitsOf(std::span<const LayerBits> rules, const std::string& layer);

// Weights as symmetric int4 or int2 with a scale for each index of `axis` (-1: one for all):
//   q = clamp(round_half_even(w / s), -2^(bits - 1), 2^(bits - 1) - 1)
// with, of s = r max|w| / (2^(bits - 1) - 1), r = 1, 0.95, ... 0.2, the one of the least sum of
// (q s - w)^2, of equals the first, as a ShortScale. `least_scale` as of QuantizeWeight
// (quant/params.h). One bit is the sign, as int2: q = -1 where w < 0, else 1, with s the mean of
// |w|, which has the least error (Rastegari et al., "XNOR-Net", 2016, equation 6).
Tensor QuantizeWeightToBits(const Tensor& weight, int axis, int bits,
                            std::span<const float> least_scale = {});

// The scale of QuantizeWeightToBits for the weights of one channel of 4 or 2 bits; with
// `importance`, one number for each of them, by the sum of importance (q s - w)^2.
float LeastErrorScale(std::span<const float> w, int bits, float least,
                      std::span<const float> importance = {});
// Of an int8 weight whose scale is to be at least `least`, the least scale of its few bits.
float LeastOfFewBits(float least);
// WeightRounding::bits < 8: QuantizeWeightToBits as int8 multiples of a power of two (FinerWeights
// in passes/qdq_bias.h). QuantizeWeight where their scale would be next to 0.
Tensor RoundToFewBits(const WeightRounding& rounding);
// int8 multiples of the narrow weights, as RoundToFewBits gives them.
Tensor AsMultiples(const Tensor& narrow, const WeightRounding& rounding);

// The signs of a weight, -1 and 1, as integers of `type`, which is int2 or wider.
Result<Tensor> SignsOf(const Tensor& weight, const TensorType& type);

// Notes on linear operators that compute with integers how many bits hold their weights: 2 those of
// 1.
void MarkWeightBits(Graph& graph, std::span<const LayerBits> rules);

}  // namespace evoq
