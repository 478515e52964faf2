// What ONNX Runtime makes of the narrow types of an .onnx that evoq writes.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"

namespace evoq {

// A sentence for each type that ONNX Runtime 1.32 does not load or computes wrongly, naming a node.
std::vector<std::string> OrtGaps(const Graph& graph);

}  // namespace evoq
