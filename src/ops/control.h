// Operators with subgraphs. A subgraph's inputs are its operator's own ones, then the captured
// values; the attribute `captured` of the node counts those.
#pragma once

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

Result<bool> ConditionOf(const Tensor& t);

// How many inputs are the operator's own ones.
Result<size_t> OwnInputs(const Node& node, size_t least);

struct LoopSizes {
  size_t states = 0, rows = 0;
};

Result<LoopSizes> LoopSizesOf(const Node& node);

struct ScanPlan {
  size_t states = 0, sequences = 0, rows = 0;
  std::vector<int64_t> in_axes, in_backwards, out_axes, out_backwards;
};

Result<ScanPlan> ScanPlanOf(const Node& node);

}  // namespace evoq
