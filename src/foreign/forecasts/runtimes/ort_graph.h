// What ONNX Runtime's graph transformers make of Q/DQ before they choose integer operators.
#pragma once

#include <set>

#include "graph/graph.h"

namespace evoq {

// A copy of an imported graph (nodes keep their ids; new ones get larger ids) after these steps, in
// ONNX Runtime's order:
//   1. quantizers of one value to the same type become one, and every reader of a DequantizeLinear
//   gets one of its own;
//   2. pairs are repeated behind (DequantizeLinear) and before (QuantizeLinear) MaxPool, Reshape,
//   Transpose, Squeeze, Unsqueeze, Slice;
//   3. Relu and Clip that the QuantizeLinear behind them makes superfluous go: `removed`;
//   4. on CPUs without int8 x int8 kernels, int8 pairs with one DequantizeLinear become uint8.
struct OrtGraph {
  Graph graph;
  std::set<NodeId> removed;
};
OrtGraph MakeOrtGraph(const Graph& graph);

}  // namespace evoq
