#include <algorithm>

#include "passes/match.h"

namespace evoq {
namespace {

bool AllInts(const Graph& graph, ValueId value, int64_t expected) {
  const auto ints = IntsOf(graph, value);
  return ints && std::all_of(ints->begin(), ints->end(), [&](int64_t v) { return v == expected; });
}

// Starts are 0, steps 1 and ends past everything, or at the known end.
bool SlicesAll(const Graph& graph, const Node& node) {
  if (!AllInts(graph, node.input(1), 0)) return false;
  if (node.input(4).valid() && !AllInts(graph, node.input(4), 1)) return false;
  const Shape& from = graph.value(node.input(0)).type.shape;
  if (SameShape(from, graph.value(node.outputs[0]).type.shape)) return true;
  const auto ends = IntsOf(graph, node.input(2));
  return ends && std::all_of(ends->begin(), ends->end(), [](int64_t v) { return v >= INT32_MAX; });
}

// The input that an element-wise operator with a neutral constant passes on, or an invalid id.
ValueId NeutralOperand(const Graph& graph, const Node& node, float neutral, bool commutes) {
  const ValueId a = node.input(0), b = node.input(1), out = node.outputs[0];
  const auto passes = [&](ValueId x, ValueId constant) {
    return UniformOf(graph, constant) == neutral &&
           SameShape(graph.value(x).type.shape, graph.value(out).type.shape) &&
           !HasActivation(node);
  };
  if (passes(a, b)) return a;
  return commutes && passes(b, a) ? b : ValueId{};
}

// Shapes of a reshape-like node are equal for certain; rank-equal with one unnamed unknown is equal
// too, for the rest of the sizes fix it.
bool KeepsShape(const Shape& from, const Shape& to) {
  if (!from.ranked() || !to.ranked() || from.rank() != to.rank()) return false;
  int unsure = 0;
  for (int i = 0; i < from.rank(); ++i) {
    if (from[i].known() && from[i].value == 0) return false;
    if (!SameDim(from[i], to[i])) {
      if (from[i].known() || to[i].known()) return false;
      ++unsure;
    }
  }
  return unsure <= 1;
}

// What the node passes on unchanged, or an invalid id.
ValueId Passed(const Graph& graph, const Node& node) {
  if (!node.domain.empty() || node.outputs.empty() || !node.outputs[0].valid() ||
      node.inputs.empty())
    return {};
  const ValueId x = node.input(0);
  if (!x.valid()) return {};
  const TensorType &from = graph.value(x).type, &to = graph.value(node.outputs[0]).type;
  const std::string& op = node.op;
  const OpDef& def = OpOf(node);
  if (def.view && def.elementwise) return x;
  if (op == "Cast")
    return from.dtype == to.dtype && from.dtype != DType::kUndefined ? x : ValueId{};
  if (op == "Transpose") {
    const auto perm = PermutationOf(graph, node);
    return perm && IsIdentity(*perm) ? x : ValueId{};
  }
  if (def.view) return KeepsShape(from.shape, to.shape) ? x : ValueId{};
  if (op == "Expand" || op == "Tile")
    return SameShape(from.shape, to.shape) && from.shape.is_static() ? x : ValueId{};
  if (op == "Pad") return AllInts(graph, node.input(1), 0) ? x : ValueId{};
  if (op == "Slice") return SlicesAll(graph, node) ? x : ValueId{};
  if (op == "Concat" || op == "Sum" || op == "Max" || op == "Min" || op == "Mean")
    return node.inputs.size() == 1 ? x : ValueId{};
  if (op == "Mul") return NeutralOperand(graph, node, 1, true);
  if (op == "Div") return NeutralOperand(graph, node, 1, false);
  if (op == "Add") return NeutralOperand(graph, node, 0, true);
  if (op == "Sub") return NeutralOperand(graph, node, 0, false);
  return {};
}

Result<int> Run(Graph& graph) {
  int changes = 0;
  for (NodeId id : NodesOf(graph)) {
    if (!graph.alive(id)) continue;
    const Node& node = graph.node(id);
    const ValueId passed = Passed(graph, node);
    if (!passed.valid()) continue;
    bool others_unused = true;
    for (size_t i = 1; i < node.outputs.size(); ++i) {
      const ValueId out = node.outputs[i];
      others_unused &= !out.valid() || (graph.value(out).users.empty() && !graph.IsOutput(out));
    }
    // A changed quantization is a requantization, not an identity.
    const TensorType &from = graph.value(passed).type, &to = graph.value(node.outputs[0]).type;
    if (!others_unused || from.quantized() != to.quantized() ||
        (from.quantized() && !SameQuant(from, to)))
      continue;
    if (!ReplaceOutput(graph, id, passed)) continue;
    graph.RemoveNode(id);
    ++changes;
  }
  return changes;
}

}  // namespace

extern const PassDef kRemoveIdentity = {
    .name = "remove-identity",
    .doc =
        "Removes nodes that pass their input on: Identity, Cast to the same type, Reshape to the "
        "same shape, Pad by 0, Slice of everything, Concat of one, x * 1, x + 0.",
    .stage = Stage::kOptimize,
    .level = 1,
    .run = Run,
};

}  // namespace evoq
