#include "passes/match.h"

namespace evoq {
namespace {

Result<int> Run(Graph& graph) {
  int changes = 0;
  for (NodeId id : NodesOf(graph)) {
    if (!IsOp(graph, id, "Sum") || graph.node(id).inputs.size() < 2) continue;
    const Node node = graph.node(id);
    // Adding from the left is how Sum is defined. Not of quantized values: Add has arithmetic of
    // its own for them (kernels/add_terms.h), which rounds ties about the zero point to the other
    // side.
    if (graph.value(node.outputs[0]).type.quantized()) continue;
    ValueId sum = node.inputs[0];
    for (size_t i = 1; i + 1 < node.inputs.size(); ++i)
      sum = graph.Apply("Add", fmt::format("{}_{}", node.name, i), {sum, node.inputs[i]});
    ReplaceNode(graph, id, "Add", "", {sum, node.inputs.back()});
    ++changes;
  }
  return changes;
}

}  // namespace

extern const PassDef kSumToAdd = {
    .name = "sum-to-add",
    .doc = "Sum of two or more values becomes Adds, which fuse.",
    .stage = Stage::kOptimize,
    .level = 0,
    .run = Run,
};

}  // namespace evoq
