// Which kernel computes a node, and why not a preferred one.
#pragma once

#include "kernels/kernel.h"
#include "program/model.h"

namespace evoq {

// The node's types and constants in the form kernels take; points into the graph.
struct NodeCall {
  std::vector<TensorType> inputs, outputs;
  std::vector<const Tensor*> constants;
  KernelCall call;

  NodeCall(const Graph& graph, const Node& node);
  NodeCall(const NodeCall&) = delete;
  NodeCall& operator=(const NodeCall&) = delete;
};

// The first kernel of the target's first backend that takes the node, else of its next; the
// reference evaluator when none does. `graph` has static types.
Decision ChooseKernel(const Graph& graph, const Node& node, const Target& target = Target());

}  // namespace evoq
