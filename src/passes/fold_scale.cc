#include <cmath>

#include "passes/linear.h"

namespace evoq {
namespace {

// One value per channel by which `node` multiplies its operand `x`, or nothing.
std::optional<std::vector<float>> FactorOf(const Graph& graph, const Node& node, ValueId x,
                                           const Node& linear) {
  const bool second = node.input(0) == x;
  if (node.op == "Div" && !second) return std::nullopt;
  auto factor = PerChannel(graph, node.input(second ? 1 : 0), graph.value(x).type.shape.rank(),
                           ChannelAxis(graph, linear), *OutputChannels(graph, linear));
  if (!factor) return std::nullopt;
  for (float& f : *factor) {
    if (node.op == "Div") f = 1 / f;
    if (!std::isfinite(f)) return std::nullopt;
  }
  return factor;
}

bool IsFactor(const Graph& graph, NodeId id) {
  return IsOp(graph, id, "Mul") || IsOp(graph, id, "Div");
}

bool FoldFactor(Graph& graph, NodeId id) {
  if (!TakesBias(graph, graph.node(id))) return false;
  const NodeId next = OnlyReader(graph, id);
  // A factor behind an addition, as batch normalization leaves behind what undoes a scale, waits
  // for no other round: import-qdq would come first.
  if ((IsOp(graph, next, "Add") || IsOp(graph, next, "Sub")) && !HasActivation(graph.node(next)) &&
      IsFactor(graph, OnlyReader(graph, next)))
    return FoldOffset(graph, id);
  if (!IsFactor(graph, next) || graph.value(graph.node(next).outputs[0]).type.quantized() ||
      HasActivation(graph.node(next)))
    return false;
  const auto factor = FactorOf(graph, graph.node(next), graph.node(id).outputs[0], graph.node(id));
  if (!factor || !TakesFactor(graph, graph.node(id), *factor)) return false;
  ScaleChannels(graph, id, *factor);
  Absorb(graph, id, next);
  return true;
}

Result<int> Run(Graph& graph) {
  int changes = 0;
  for (NodeId id : NodesOf(graph)) {
    while (graph.alive(id) && FoldFactor(graph, id)) ++changes;
  }
  return changes;
}

}  // namespace

extern const PassDef kFoldScale = {
    .name = "fold-scale",
    .doc =
        "Moves a constant factor or divisor per channel after a linear operator into its weights "
        "and bias.",
    .stage = Stage::kOptimize,
    .level = 2,
    .run = Run,
};

}  // namespace evoq
