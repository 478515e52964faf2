// LSTMs of rounded data are nodes of com.microsoft in an ONNX file: DynamicQuantizeLSTM.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace evoq {

// Whether the node is an LSTM that such a node says: with data_block, weights of 8 bits with one
// scale for all, for each direction or for each row, sequences first (layout 0).
bool IsDynamicLstm(const Graph& graph, const Node& node);

// Of such a node: inputs 1 and 2 in its layout, [directions, K, rows], and their scales and zero
// points, inputs 8 to 11.
struct DynamicLstmWeights {
  Tensor w, r, w_scale, w_zero, r_scale, r_zero;
};
DynamicLstmWeights DynamicLstmWeightsOf(const Graph& graph, const Node& node);

}  // namespace evoq
