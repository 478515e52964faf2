#include "passes/clean.h"

namespace evoq {
namespace {

// The output has the bytes of input 0 under another shape.
bool Reshapes(const Node& node) {
  const OpDef& op = OpOf(node);
  return op.view && !op.elementwise;
}

// view(view(x)) -> Reshape(x). The inner one stays when others read it.
bool Join(Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  const NodeId before = graph.value(node.input(0)).producer;
  if (!graph.alive(before) || !Reshapes(graph.node(before))) return false;
  const ValueId x = graph.node(before).input(0);
  const TensorType &from = graph.value(x).type, &middle = graph.value(node.input(0)).type,
                   &to = graph.value(node.outputs[0]).type;
  if (from.quantized() != to.quantized() || from.quantized() != middle.quantized()) return false;
  if (from.quantized() && (!SameQuant(from, to) || !SameQuant(from, middle))) return false;
  const auto target = ReshapeTarget(from.shape, to.shape);
  if (!target) return false;
  const ValueId shape = AddInts(graph, node.name + "_shape", *target);
  ReplaceNode(graph, id, "Reshape", "", {x, shape});
  return true;
}

}  // namespace

int JoinReshapes(Graph& graph) {
  return CountChanges(graph,
                      [](Graph& g, NodeId id) { return Reshapes(g.node(id)) && Join(g, id); });
}

namespace {
Result<int> Run(Graph& graph) { return JoinReshapes(graph); }
}  // namespace

extern const PassDef kCleanReshape = {
    .name = "clean-reshape",
    .doc = "Two of Reshape, Flatten, Squeeze and Unsqueeze in a row become one Reshape.",
    .stage = Stage::kOptimize,
    .level = 1,
    .run = Run,
};

}  // namespace evoq
