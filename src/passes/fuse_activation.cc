#include <algorithm>
#include <limits>

#include "passes/match.h"

namespace evoq {
namespace {

// The node computes with integers, or will when import-qdq has run.
bool IsIntegerArithmetic(const Graph& graph, const Node& node) {
  for (ValueId in : node.inputs) {
    if (!in.valid() || graph.value(in).is_constant()) continue;
    if (graph.value(in).type.quantized() || ProducedBy(graph, in, "DequantizeLinear").valid())
      return true;
  }
  return false;
}

// `second` after `first` as one function, when it is one: bounds narrow.
std::optional<Activation> Joined(const Activation& first, const Activation& second) {
  if (first.kind == ActivationKind::kNone) return second;
  const auto bounded = [](const Activation& a) {
    return a.kind == ActivationKind::kRelu || a.kind == ActivationKind::kClip;
  };
  if (!bounded(first) || !bounded(second)) return std::nullopt;
  const auto low = [](const Activation& a) {
    return a.kind == ActivationKind::kRelu ? 0 : a.alpha;
  };
  const auto high = [](const Activation& a) {
    return a.kind == ActivationKind::kRelu ? std::numeric_limits<float>::infinity() : a.beta;
  };
  const float a = std::max(low(first), low(second)), b = std::min(high(first), high(second));
  if (a > b) return std::nullopt;
  if (a == 0 && b >= std::numeric_limits<float>::max()) return Activation{ActivationKind::kRelu};
  return Activation{ActivationKind::kClip, a, b};
}

bool Fuse(Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  const bool add = node.domain.empty() && node.op == "Add";
  const auto present = ActivationFromAttrs(node.attrs);
  if ((!IsLinear(node) && !add) || !present) return false;
  const TensorType& type = graph.value(node.outputs[0]).type;
  if (type.dtype != DType::kFloat32) return false;
  const NodeId next = OnlyReader(graph, id);
  if (!graph.alive(next)) return false;
  const auto following = ActivationOf(graph, graph.node(next));
  const auto activation = following ? Joined(*present, *following) : std::nullopt;
  if (!activation) return false;
  const bool integers = IsIntegerArithmetic(graph, node);
  if (integers && !IsPiecewiseLinear(activation->kind)) return false;
  if (!integers && graph.value(graph.node(next).outputs[0]).type.quantized()) return false;
  EraseActivation(graph.attrs(id));
  ActivationToAttrs(*activation, graph.attrs(id));
  Absorb(graph, id, next);
  return true;
}

Result<int> Run(Graph& graph) {
  int changes = 0;
  for (NodeId id : NodesOf(graph)) {
    while (Fuse(graph, id)) ++changes;
  }
  return changes;
}

}  // namespace

extern const PassDef kFuseActivation = {
    .name = "fuse-activation",
    .doc =
        "Relu, Clip, LeakyRelu, Sigmoid, ... after Conv, ConvTranspose, MatMul or Add become its "
        "activation.",
    .stage = Stage::kOptimize,
    .level = 2,
    .run = Run,
};

}  // namespace evoq
