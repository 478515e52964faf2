// Parameters that a file holds once although they are several.
#pragma once

#include "graph/graph.h"

namespace evoq {

// Exporters keep equal tensors once: PyTorch's reads the others through Identity nodes, others read
// one tensor everywhere. Of a network that was not trained, so the ones and zeros of all its
// normalizations and biases are one tensor, and would be trained as one. Here each reader gets its
// own: of float32 tensors of equal elements, unless the readers share another tensor too (a layer
// that is applied several times), and of what batch normalization averages. Tied weights, whose
// elements differ, stay one tensor; Identity nodes of constants go.
Status SeparateParameters(Graph& graph);

}  // namespace evoq
