// How nodes are computed one by one, as their operators define it: a value that is handed to
// whatever needs it, so that inference, compiling and running do not depend on the definitions
// (room reference).
#pragma once

#include <span>
#include <vector>

#include "graph/graph.h"

namespace evoq {

struct Evaluator {
  // Whether it has the node's definition.
  bool (*has)(const Node& node);
  // Outputs of the node, of the types that inference gives for these inputs, which are plain
  // tensors; an omitted one is undefined. Quantized types are as in `output_types`, of which those
  // that nobody reads are kUndefined. Errors: with the node's name and operator in front.
  Result<std::vector<Tensor>> (*evaluate)(const Node& node, std::span<const Tensor> inputs,
                                          std::span<const TensorType> output_types);
};

// Has no definition.
inline constexpr Evaluator kNoEvaluator = {
    .has = [](const Node&) { return false; },
    .evaluate = [](const Node& node, std::span<const Tensor>,
                   std::span<const TensorType>) -> Result<std::vector<Tensor>> {
      return Unsupported("{}: there is no definition of {}", node.name, node.op);
    }};

}  // namespace evoq
