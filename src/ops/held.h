// Nodes that a graph pass must leave alone.
//
// While a node is held its operator has a name that no pattern knows, and an OpDef that says
// nothing of it but that it may do anything: FindOp gives that one. Values keep their types. Held
// nodes live inside one run of one pass; no file and no other room sees them.
#pragma once

#include "ops/op.h"

namespace evoq {

void Hold(Graph& graph, NodeId id);
// Every held node is what it was.
void Release(Graph& graph);
bool IsHeld(const Node& node);
// What FindOp says of a held node.
extern const OpDef kHeldOp;

}  // namespace evoq
