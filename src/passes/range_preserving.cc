#include <cmath>

#include "passes/match.h"

namespace evoq {
namespace {

// The activation changes no value that is rounded to `type` afterwards: its bounds lie at or beyond
// the type's range.
bool IsImplied(const Activation& activation, const TensorType& type) {
  if (!IsByteQuantized(type)) return false;
  const double scale = type.quant->scales[0];
  const int zero = type.quant->zero_points[0];
  const double low = static_cast<double>(IntegerMin(type.dtype) - zero),
               high = static_cast<double>(IntegerMax(type.dtype) - zero);
  if (activation.kind == ActivationKind::kRelu) return low >= 0;
  return activation.kind == ActivationKind::kClip &&
         std::nearbyint(activation.alpha / scale) <= low &&
         std::nearbyint(activation.beta / scale) >= high;
}

// A fused activation that saturation does anyway.
bool DropActivation(Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  if (!HasActivation(node) || node.input(4).valid())
    return false;  // behind a table, the output's range is not the sum's
  const auto activation = ActivationFromAttrs(node.attrs);
  if (!activation || !IsImplied(*activation, graph.value(node.outputs[0]).type)) return false;
  EraseActivation(graph.attrs(id));
  return true;
}

// A Relu or Clip of its own between values of equal parameters.
bool RemoveImplied(Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  const auto activation = ActivationOf(graph, node);
  if (!activation) return false;  // perhaps it has no inputs
  const TensorType &from = graph.value(node.input(0)).type, &to = graph.value(node.outputs[0]).type;
  if (!SameQuant(from, to) || !IsImplied(*activation, to)) return false;
  if (!ReplaceOutput(graph, id, node.input(0))) return false;
  graph.RemoveNode(id);
  return true;
}

// Moving operators whose input and output parameters differ get an explicit requantization and move
// integers of one scale. Moving and element-wise quantization commute, so no value changes. It
// stands after an operator with one input, where there are fewer elements, but before a Pad (whose
// value belongs to the output's parameters).
int Requantize(Graph& graph, NodeId id) {
  const Node node = graph.node(id);
  if (OpOf(node).quant != QuantTrait::kMove || node.outputs.size() != 1) return 0;
  const ValueId out = node.outputs[0];
  const TensorType to = graph.value(out).type;
  if (!to.quantized() || !to.quant->per_tensor()) return 0;
  std::vector<size_t> different;
  size_t data = 0;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (!node.inputs[i].valid()) continue;
    const TensorType& from = graph.value(node.inputs[i]).type;
    const bool real =
        from.quantized() || (from.dtype == DType::kFloat32 && RoleOf(node, i) != Role::kFill);
    data += real;
    if (real && !SameQuant(from, to)) different.push_back(i);
    if (from.quantized() != to.quantized() && real) return 0;
    if (from.quantized() && !from.quant->per_tensor()) return 0;
  }
  if (different.empty()) return 0;
  if (data == 1 && InputWith(OpOf(node), Role::kFill) < 0) {
    TensorType inner = graph.value(node.inputs[different[0]]).type;
    inner.shape = to.shape;
    const std::string name = graph.value(out).name;
    graph.SetOutput(id, 0, graph.AddValue(name + "_moved", inner));
    graph.AddNode({.op = "QuantizeLinear",
                   .name = name + "_requantize",
                   .inputs = {graph.node(id).outputs[0]},
                   .outputs = {out}});
    return 1;
  }
  for (size_t i : different) {
    TensorType inner = to;
    inner.shape = graph.value(node.inputs[i]).type.shape;
    graph.SetInput(id, i,
                   graph.Apply("QuantizeLinear", fmt::format("{}_requantize_{}", node.name, i),
                               {node.inputs[i]}, {}, inner));
  }
  return static_cast<int>(different.size());
}

Result<int> Run(Graph& graph) {
  int changes = 0;
  for (NodeId id : NodesOf(graph)) {
    if (!graph.alive(id) || graph.node(id).outputs.empty() || !graph.node(id).outputs[0].valid())
      continue;
    changes += Requantize(graph, id) + DropActivation(graph, id);
    changes += RemoveImplied(graph, id);
  }
  return changes;
}

}  // namespace

extern const PassDef kRangePreserving = {
    .name = "range-preserving",
    .doc =
        "Operators that only move values get equal parameters in and out; a Relu or Clip that the "
        "integer range implies goes.",
    .stage = Stage::kLower,
    .level = 0,
    .run = Run,
};

}  // namespace evoq
