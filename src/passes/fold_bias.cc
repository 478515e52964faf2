#include "passes/linear.h"

namespace evoq {
namespace {

// One value per channel that `node` adds to its operand `x`, or nothing. x - c adds -c; c - x is no
// addition to x.
std::optional<std::vector<float>> OffsetOf(const Graph& graph, const Node& node, ValueId x,
                                           const Node& linear) {
  const bool second = node.input(0) == x;
  if (node.op == "Sub" && !second) return std::nullopt;
  auto offset = PerChannel(graph, node.input(second ? 1 : 0), graph.value(x).type.shape.rank(),
                           ChannelAxis(graph, linear), *OutputChannels(graph, linear));
  if (offset && node.op == "Sub") {
    for (float& v : *offset) v = -v;
  }
  return offset;
}

Result<int> Run(Graph& graph) {
  return CountChanges(graph, [](Graph& g, NodeId id) { return FoldOffset(g, id); });
}

}  // namespace

bool FoldOffset(Graph& graph, NodeId linear) {
  if (!TakesBias(graph, graph.node(linear))) return false;
  const NodeId next = OnlyReader(graph, linear);
  if (!IsOp(graph, next, "Add") && !IsOp(graph, next, "Sub")) return false;
  if (graph.value(graph.node(next).outputs[0]).type.quantized()) return false;
  const auto offset =
      OffsetOf(graph, graph.node(next), graph.node(linear).outputs[0], graph.node(linear));
  if (!offset) return false;
  OffsetChannels(graph, linear, *offset);
  for (const char* name : {"activation", "activation_alpha", "activation_beta"}) {
    const Attrs& attrs = graph.node(next).attrs;
    for (const auto& [key, value] : attrs) {
      if (key == name) graph.attrs(linear).Set(name, value);
    }
  }
  Absorb(graph, linear, next);
  return true;
}

extern const PassDef kFoldBias = {
    .name = "fold-bias",
    .doc = "Moves a constant per channel added after a linear operator into its bias.",
    .stage = Stage::kOptimize,
    .level = 2,
    .run = Run,
};

}  // namespace evoq
