// Sizes for a graph whose inputs leave some open, to ask kernels about.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace evoq {

// Of each ranked input: its known sizes; for every symbol, and every size without one, 1 for
// batches (the first axis), 64 elsewhere. Kernels want static shapes; which ones hardly matters to
// them.
std::map<std::string, std::vector<int64_t>> ExampleShapes(const Graph& graph);

}  // namespace evoq
