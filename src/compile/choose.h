// Which kernel computes a node, and why not a preferred one.
#pragma once

#include "kernels/kernel.h"
#include "program/model.h"
#include "program/node_call.h"

namespace evoq {

// Whether the backend may compute the node whatever its kernels say: the host computes what reads
// or writes by indices, which it checks, but for a gather of constant ones, which are checked when
// the step is bound (runtime/guard.h).
bool MayCompute(const Backend& backend, const Node& node, const KernelCall& call);

// The backend's first kernel that takes the node, null where none does; `rejected`, where not null,
// gets those before it.
const KernelDef* FirstThatTakes(const Backend& backend, const Node& node, const KernelCall& call,
                                std::vector<Decision::Rejected>* rejected);

// The first kernel of the target's first backend that takes the node, else of its next; the
// reference evaluator when none does. `graph` has static types.
Decision ChooseKernel(const Graph& graph, const Node& node, const Target& target = Target());

}  // namespace evoq
