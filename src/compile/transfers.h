// Copies between memories that are apart.
#pragma once

#include <vector>

#include "graph/graph.h"
#include "kernels/backend.h"

namespace evoq {

// Puts a copying Identity (compile/roots.h), "copy_VALUE_to_SPACE", wherever a node reads a value
// that another memory has: the model's inputs, and what a node on another backend computed. It is
// copied once for each memory that reads it, itself or a view of it; from one memory that is not
// the host's to another, by way of the host's. The model's outputs are copied to the host's memory
// where they are not in it. Constants are no values of a run: each memory that reads one has it
// (runtime/executor.h).
//
// `space_of[node]`: where the node computes; of a view, that of what it views, is ignored. A copy
// that stands in the graph already (SeparateOutputs) copies from wherever its input is to the host.
// Returns the same for all nodes of the changed graph: of a copy, where it copies to.
Result<std::vector<const MemorySpace*>> AddTransfers(Graph& graph,
                                                     std::vector<const MemorySpace*> space_of);

}  // namespace evoq
