// Operators with subgraphs. A subgraph's inputs are its operator's own ones, then the captured
// values; the attribute `captured` of the node counts those.
#pragma once

#include <functional>

#include "ops/op.h"

namespace evoq {

// How many of the node's inputs are captured values: the last ones. Errors: kInvalidInput when
// there are not so many inputs.
Result<size_t> CapturedInputs(const Node& node);

// Types of the inputs of subgraph `body` of a node with these inputs, before anything is known of
// what the subgraph does: sizes of values that one round hands to the next are unknown. An
// undefined type where an input has none yet. Errors: kInvalidInput when the node's inputs do not
// fit the subgraph.
Result<std::vector<TensorType>> BodyInputTypes(const Node& node, size_t body,
                                               std::span<const TensorType> inputs);

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
