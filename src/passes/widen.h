// Weights that a file holds in 16 bits stay as they lie in it, under Cast and Transpose, until
// someone computes with them: a model of them need not be in memory in float32 as a whole.
#pragma once

#include "graph/graph.h"

namespace evoq {

// Makes `value` a float32 constant where it is the Cast of a 16-bit floating-point constant, or a
// matrix that is the Transpose of one. Whether it was. Errors: kTooLarge.
Result<bool> WidenConstant(Graph& graph, ValueId value);

// Makes float32 constants of all such values: the pass widen-constants.
Status WidenConstants(Graph& graph);

// Frees a constant that nothing reads any more.
void DropUnread(Graph& graph, ValueId value);

}  // namespace evoq
