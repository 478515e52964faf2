// A node as kernels take it.
#pragma once

#include <vector>

#include "graph/graph.h"
#include "kernels/kernel.h"

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

// The first input whose memory output 0 of the node may have, or -1: `kernel` (which may be null)
// writes in place, and the memory holds no input that must not change. `memory_of(id)` names the
// memory of an input by a number of 0 or more, or is negative where it cannot be given; `dies(id)`
// says whether the memory may be overwritten when the node runs.
template <typename MemoryOf, typename Dies>
int OverwritableInput(const Graph& graph, const Node& node, const KernelDef* kernel,
                      const MemoryOf& memory_of, const Dies& dies) {
  if (kernel == nullptr || kernel->in_place == nullptr) return -1;
  const uint32_t mask = kernel->in_place(NodeCall(graph, node).call);
  const auto may_change = [&](size_t i) { return i < 32 && (mask >> i & 1) != 0; };
  const auto memory = [&](size_t i) {
    return node.inputs[i].valid() ? memory_of(node.inputs[i]) : -1;
  };
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (!may_change(i) || memory(i) < 0 || !dies(node.inputs[i])) continue;
    bool only = true;  // it may come in again, as an input that must not change
    for (size_t k = 0; k < node.inputs.size(); ++k) only &= memory(k) != memory(i) || may_change(k);
    if (only) return static_cast<int>(i);
  }
  return -1;
}

}  // namespace evoq
