// What a quantization leaves in float32: weights that a user expects to shrink.
#pragma once

#include <optional>
#include <string>

#include "base/reason.h"
#include "graph/graph.h"

namespace evoq {

// A warning where more than half of a model's weights, which were `float_bytes` in float32, are
// float32 in `quantized`, and 64 KiB at least: how much they are, and of the node with the most of
// them its name and why it stays float32. Weights of excluded nodes do not count. Nothing else.
std::optional<std::string> LeftFloatWarning(const Graph& quantized, int64_t float_bytes,
                                            const Reasons& reasons);

}  // namespace evoq
