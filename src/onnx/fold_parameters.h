// What the parameters of quantization are computed from.
#pragma once

#include "base/result.h"
#include "graph/graph.h"

namespace evoq {

// Computes scales, zero points and stored integers of QuantizeLinear and DequantizeLinear nodes
// that constants alone make, so that TypeQuantizedValues (quantize.h) sees them: exporters that
// share equal constants hand them on through Identity, others write a Cast or a Div. Before types
// are inferred. Errors: those of computing a node, with its label.
Status FoldQuantParameters(Graph& graph);

}  // namespace evoq
