#include "passes/match.h"

namespace evoq {
namespace {

// A float node op(x, constant): its two operands. Its own activation, if any, comes last and may
// stay with it.
struct ByConstant {
  ValueId x, constant;
};

std::optional<ByConstant> Split(const Graph& graph, NodeId id, const char* op) {
  if (!IsOp(graph, id, op) || graph.value(graph.node(id).outputs[0]).type.quantized())
    return std::nullopt;
  const ValueId a = graph.node(id).input(0), b = graph.node(id).input(1);
  const bool constant_a = FloatConstant(graph, a) != nullptr,
             constant_b = FloatConstant(graph, b) != nullptr;
  if (constant_a == constant_b) return std::nullopt;
  return constant_b ? ByConstant{a, b} : ByConstant{b, a};
}

// The same of the node that computes `value` for this reader only.
std::optional<ByConstant> SplitBefore(const Graph& graph, ValueId value, const char* op) {
  const NodeId id = graph.value(value).producer;
  return graph.OnlyUser(value).valid() && graph.alive(id) && !HasActivation(graph.node(id))
             ? Split(graph, id, op)
             : std::nullopt;
}

// op(op(x, a), b) -> op(x, op(a, b)): fold-constants computes op(a, b).
bool Merge(Graph& graph, NodeId id, const char* op) {
  const auto outer = Split(graph, id, op);
  const auto inner = outer ? SplitBefore(graph, outer->x, op) : std::nullopt;
  if (!inner) return false;
  const ValueId both =
      graph.Apply(op, graph.node(id).name + "_constant", {inner->constant, outer->constant});
  ReplaceNode(graph, id, op, "", {inner->x, both}, Attrs(graph.node(id).attrs));
  return true;
}

// (x * f + o) * g -> x * (f * g) + o * g.
bool Distribute(Graph& graph, NodeId id) {
  const auto outer = Split(graph, id, "Mul");
  const auto sum = outer ? SplitBefore(graph, outer->x, "Add") : std::nullopt;
  const auto product = sum ? SplitBefore(graph, sum->x, "Mul") : std::nullopt;
  if (!product) return false;
  const std::string name = graph.node(id).name;
  const ValueId factor = graph.Apply("Mul", name + "_factor", {product->constant, outer->constant});
  const ValueId offset = graph.Apply("Mul", name + "_offset", {sum->constant, outer->constant});
  const ValueId scaled = graph.Apply("Mul", name + "_scaled", {product->x, factor});
  ReplaceNode(graph, id, "Add", "", {scaled, offset});
  return true;
}

Result<int> Run(Graph& graph) {
  return CountChanges(graph, [](Graph& g, NodeId id) {
    return Merge(g, id, "Mul") || Merge(g, id, "Add") || Distribute(g, id);
  });
}

}  // namespace

extern const PassDef kMergeConstants = {
    .name = "merge-constants",
    .doc = "Factors and offsets by constants in a row become one factor and one offset.",
    .stage = Stage::kOptimize,
    .level = 2,
    .run = Run,
};

}  // namespace evoq
