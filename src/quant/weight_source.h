// Where a product's weight lies: models of 16 bits have it under a Cast and a Transpose, which need
// not become a float32 constant to be rounded (quant/stored_matrix.h).
#pragma once

#include "graph/graph.h"

namespace evoq {

// The constant behind a weight: itself, or what it is the Cast and Transpose of; not valid where
// there is none.
struct WeightSource {
  ValueId constant;
  bool transposed = false;
};
WeightSource SourceOf(const Graph& graph, ValueId weight);

// Whether it is plain and of 16-bit floats.
bool IsNarrow(const Tensor& weight);

}  // namespace evoq
