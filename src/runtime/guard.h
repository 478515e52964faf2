// What only a run's values show to be wrong, looked at before the step that would read them:
// kernels cannot fail.
#pragma once

#include <optional>
#include <span>

#include "base/result.h"
#include "graph/graph.h"

namespace evoq {

// The condition that a step puts on values of its inputs.
struct Guard {
  size_t input = 0;          // the input that holds indices, int32 or int64
  int64_t count = 0;         // how many
  int64_t low = 0, end = 0;  // each is in [low, end)
  bool wide = true;          // int64
  std::string label;         // the node's, for the error

  // `in`: the data of the step's inputs. Errors: kInvalidInput with the node, input and index.
  Status Check(const void* const* in) const;
};

// The guard of a node with these input types, if it needs one.
std::optional<Guard> GuardOf(const Node& node, std::span<const TensorType> inputs);

}  // namespace evoq
