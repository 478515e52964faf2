// Values whose sizes follow from what the data is, not from the sizes of the inputs.
#pragma once

#include <set>
#include <span>

#include "graph/graph.h"

namespace evoq {

// Of a run on inputs of these sizes: what NonMaxSuppression, NonZero and the like give, and what is
// computed from it. Two models give lists of other lengths, in another order, where next to nothing
// differs: such values are not compared by position. Empty for a graph that refuses the sizes.
std::set<ValueId> SizedByData(const Graph& graph, std::span<const Tensor> inputs);

}  // namespace evoq
