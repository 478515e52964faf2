// What a quantization leaves as it was: weights that a user expects to shrink or to change.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "base/reason.h"
#include "graph/graph.h"
#include "quant/quant.h"

namespace evoq {

// A warning where more than half of a model's weights, which were `float_bytes` in float32, are
// float32 in `quantized`, and 64 KiB at least: how much they are, and of the node with the most of
// them its name and why it stays float32. Weights of excluded nodes do not count. Nothing else.
std::optional<std::string> LeftFloatWarning(const Graph& quantized, int64_t float_bytes,
                                            const Reasons& reasons);

// A warning for weights of products that the model's file has in blocks of few bits and that stay
// so although the scheme has others; `before` is the model as it was read, FewBitsOf, `scheme` the
// type of the scheme's weights. Nothing where there are none.
std::map<std::string, TensorType> FewBitsOf(const Graph& graph);
std::optional<std::string> KeptWarning(const Graph& quantized, const QuantScheme& scheme,
                                       const std::map<std::string, TensorType>& before);

// Nodes that stay float, by reason, as lines: the commonest first, the first few names of each.
std::string FloatReasonsText(const Reasons& reasons);

}  // namespace evoq
