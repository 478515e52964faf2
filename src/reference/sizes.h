// The definitions that models compute sizes with, for programs that are to be small.
#pragma once

#include <span>
#include <vector>

#include "graph/evaluator.h"

namespace evoq {

bool ComputesSizes(const Node& node);
Result<std::vector<Tensor>> EvaluateSizes(const Node& node, std::span<const Tensor> inputs,
                                          std::span<const TensorType> output_types);

// Those of reference/sizes.inc.
inline constexpr Evaluator kSizes = {.has = ComputesSizes, .evaluate = EvaluateSizes};

}  // namespace evoq
