#pragma once

#include "graph/graph.h"

namespace evoq {

// Whether the node carries a fused activation that integer arithmetic computes by a table (not Relu, Clip, LeakyRelu).
bool HasTableActivation(const Node& node);

// Takes that activation off the node again: output v becomes the activation node's, the node computes v.linear. Integer
// operators need the range of v.linear, so calibration and quantization both split, and names agree.
void SplitActivation(Graph& graph, NodeId node);

}  // namespace evoq
