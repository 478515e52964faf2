// Evaluation of operators with subgraphs.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "reference/definition.h"

namespace evoq {

// Computes the outputs of subgraph `body` of a node.
using RunBody =
    std::function<Result<std::vector<Tensor>>(size_t body, std::span<const Tensor> inputs)>;

// EvaluateNode of an operator with subgraphs, which `run` computes; the outputs' types are not
// inferred again.
Result<std::vector<Tensor>> EvaluateControl(const Node& node, std::span<const Tensor> inputs,
                                            std::span<const TensorType> output_types,
                                            const RunBody& run);

// Row i of `x` along `axis`, without that axis. Whole-byte types.
Result<Tensor> TakeAlong(const Tensor& x, int axis, int64_t i);

// Equal-shaped tensors as one with a new axis (the inverse of TakeAlong); `empty` is the result of
// none.
Result<Tensor> Stacked(std::span<const Tensor> rows, int axis, const TensorType& empty);

}  // namespace evoq
