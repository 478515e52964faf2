// Parts of the exporter.
#pragma once

#include "graph/graph.h"

namespace evoq {

constexpr int kExportOpset = 17;  // of models that need nothing newer

// The oldest operator set, from kExportOpset on, in which the graph's operators and types exist.
int OpsetNeeded(const Graph& graph);
// The file format version that goes with an operator set.
int IrVersionOf(int opset);

}  // namespace evoq
