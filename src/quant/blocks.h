// A model as blocks, one behind the other: cut where a single value carries all that the layers
// before have computed, as between the residual blocks of a network.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace evoq {

struct Block {
  // Float32, as it stands in the model: values and nodes by their names there. Its inputs are what
  // its nodes read of the block before (`carried`) and what depends on no layer: inputs of the
  // model, masks, positions. Its outputs are what the block behind it reads, and outputs of the
  // model.
  Graph graph;
  std::string carried;              // "": of the first one
  std::vector<std::string> layers;  // names of nodes, in their order
};

// Blocks of at least `least` of these layers (node names), but for the last. Nodes that depend on
// no layer are in none. Errors: those of InferTypes.
Result<std::vector<Block>> BlocksOf(const Graph& graph, const std::set<std::string>& layers,
                                    size_t least);

}  // namespace evoq
