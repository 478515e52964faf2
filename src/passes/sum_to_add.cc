#include "passes/match.h"

namespace evoq {
namespace {

bool Rewrite(Graph& graph, NodeId id) {
  const bool mean = IsOp(graph, id, "Mean");
  if ((!mean && !IsOp(graph, id, "Sum")) || graph.node(id).inputs.size() < 2) return false;
  const Node node = graph.node(id);
  const TensorType& y = graph.value(node.outputs[0]).type;
  // Adding from the left is how Sum and Mean are defined. Not of quantized values: Add has
  // arithmetic of its own for them (kernels/add_terms.h), which rounds ties about the zero point to
  // the other side.
  if (y.quantized() || (mean && y.dtype != DType::kFloat32)) return false;
  ValueId sum = node.inputs[0];
  const size_t last = node.inputs.size() - 1;
  for (size_t i = 1; i < (mean ? last + 1 : last); ++i)
    sum = graph.Apply("Add", fmt::format("{}_{}", node.name, i), {sum, node.inputs[i]});
  if (mean) {
    const auto count = static_cast<float>(node.inputs.size());
    ReplaceNode(graph, id, "Div", "", {sum, AddFloat(graph, node.name + "_count", count)});
  } else {
    ReplaceNode(graph, id, "Add", "", {sum, node.inputs.back()});
  }
  return true;
}

Result<int> Run(Graph& graph) { return CountChanges(graph, Rewrite); }

}  // namespace

extern const PassDef kSumToAdd = {
    .name = "sum-to-add",
    .doc = "Sum and Mean of two or more values become Adds, which fuse.",
    .stage = Stage::kOptimize,
    .level = 0,
    .run = Run,
};

}  // namespace evoq
