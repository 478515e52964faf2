// Products that are nodes of com.microsoft in an ONNX file: MatMul with data_block is MatMulNBits,
// whose accuracy_level 4 rounds its data to int8 in blocks of the weights; MatMul with NF4 weights
// is MatMulBnb4.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace evoq {

// The operator, or nullptr where ONNX's own says what the node does.
const char* MicrosoftProductOf(const Graph& graph, const Node& node);

// What stands in place of input 1, and the node's attributes.
struct MicrosoftProduct {
  struct Input {
    const char* name;
    Tensor tensor;
  };
  std::vector<Input> inputs;
  Attrs attrs;
};

// Of a node that has such an operator. Errors: kUnsupported where it has no such weights, or other
// blocks of the data.
Result<MicrosoftProduct> AsMicrosoftProduct(const Graph& graph, const Node& node);

}  // namespace evoq
