#include <limits>

#include "passes/match.h"

namespace evoq {
namespace {

bool Rewrite(Graph& graph, NodeId id) {
  if (!IsOp(graph, id, "LpNormalization")) return false;
  const Node node = graph.node(id);
  const ValueId x = node.input(0);
  if (!IsPlainFloat(graph, x) || !IsPlainFloat(graph, node.outputs[0])) return false;
  const Attrs sums = Attrs::Of("keepdims", int64_t{1});
  const ValueId axes = AddInts(graph, node.name + "_axes", {node.attrs.Int("axis", -1)});
  const ValueId norm = graph.Apply(node.attrs.Int("p", 2) == 2 ? "ReduceL2" : "ReduceL1",
                                   node.name + "_norm", {x, axes}, sums);
  // What has no length stays at 0.
  const ValueId zero = AddFloat(graph, node.name + "_zero", 0.0f),
                infinity = AddFloat(graph, node.name + "_infinity",
                                    std::numeric_limits<float>::infinity()),
                none = graph.Apply("Equal", node.name + "_none", {norm, zero}),
                by = graph.Apply("Where", node.name + "_by", {none, infinity, norm});
  ReplaceNode(graph, id, "Div", "", {x, by});
  return true;
}

Result<int> Run(Graph& graph) { return CountChanges(graph, Rewrite); }

}  // namespace

extern const PassDef kLowerLpNormalization;
const PassDef kLowerLpNormalization = {
    .name = "lower-lp-normalization",
    .doc = "LpNormalization becomes a division by ReduceL2 or ReduceL1.",
    .stage = Stage::kLower,
    .level = 0,
    .run = Run,
};

}  // namespace evoq
