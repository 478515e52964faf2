// What the rewrites of ConvTranspose to Conv share.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"

namespace evoq {

// The elements of `vector` `times` times, one copy behind the other.
Tensor Repeated(const Tensor& vector, int64_t times);

// `y` of [N, C, D..] without the first `first[i]` and the last `cut[i]` indices of each axis of D:
// its padding. `y` itself where there are none.
ValueId WithoutEdges(Graph& graph, const std::string& name, ValueId y,
                     const std::vector<int64_t>& first, const std::vector<int64_t>& cut);

}  // namespace evoq
