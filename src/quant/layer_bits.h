// Weights of fewer than 8 bits under integer arithmetic (graph/weight_bits.h): which layers have
// them, and how they are rounded.
#pragma once

#include "graph/weight_bits.h"
#include "quant/quant.h"

namespace evoq {

// Of an option that was given so often: "4" (of all layers) or "PATTERN=2". Errors: kUsage for
// others, naming `option`.
Result<std::vector<LayerBits>> ParseLayerBits(const char* option,
                                              const std::vector<std::string>& given);

// Of the layer of this name, by the last rule that matches: 8, 4 or 2.
int BitsOf(std::span<const LayerBits> rules, const std::string& layer);

// Weights as symmetric int4 or int2 with a scale for each index of `axis` (-1: one for all):
//   q = clamp(round_half_even(w / s), -2^(bits - 1), 2^(bits - 1) - 1)
// with, of s = r max|w| / (2^(bits - 1) - 1), r = 1, 0.95, ... 0.2, the one of the least sum of
// (q s - w)^2, of equals the first, as a ShortScale. `least_scale` as of QuantizeWeight
// (quant/params.h).
Tensor QuantizeWeightToBits(const Tensor& weight, int axis, int bits,
                            std::span<const float> least_scale = {});

// QuantizeOptions::round that gives the weights of these layers so few bits, as int8 multiples of a
// power of two (FinerWeights in passes/qdq_bias.h), and rounds others to nearest.
RoundFn RoundToBits(std::vector<LayerBits> rules, int threads);

// Notes on linear operators that compute with integers how many bits their weights have.
void MarkWeightBits(Graph& graph, std::span<const LayerBits> rules);

}  // namespace evoq
