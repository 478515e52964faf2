// Activations that exporters write as products: x * f(x).
#pragma once

#include <algorithm>
#include <functional>

#include "passes/match.h"

namespace evoq {

// What a matched product is to be replaced by.
struct Replacement {
  ValueId x;
  const char* op;
  const char* domain = "";
  Attrs attrs;
};

// Asks `match` about the product behind every Mul and Div, the outermost of a chain first, and
// replaces it by one node.
inline int ReplaceProducts(
    Graph& graph,
    const std::function<std::optional<Replacement>(const Graph&, const Product&)>& match) {
  int changes = 0;
  std::vector<NodeId> nodes = NodesOf(graph);
  std::reverse(nodes.begin(), nodes.end());
  for (NodeId id : nodes) {
    if ((!IsOp(graph, id, "Mul") && !IsOp(graph, id, "Div")) || HasActivation(graph.node(id)))
      continue;
    const ValueId out = graph.node(id).outputs[0];
    const TensorType type = graph.value(out).type;
    if (type.dtype != DType::kFloat32) continue;
    auto found = match(graph, ProductOf(graph, out));
    // Scalars of a higher rank would give the product more dimensions than x.
    if (!found || graph.value(found->x).type.quantized() ||
        graph.value(found->x).type.shape.rank() != type.shape.rank())
      continue;
    ReplaceNode(graph, id, found->op, found->domain, {found->x}, std::move(found->attrs));
    ++changes;
  }
  return changes;
}

// Calls `is_gate(f, x)` for both orders of a product of two factors; the x for which it holds.
inline ValueId GatedBy(const Product& product,
                       const std::function<bool(ValueId f, ValueId x)>& is_gate) {
  if (product.factors.size() != 2) return {};
  if (is_gate(product.factors[1], product.factors[0])) return product.factors[0];
  if (is_gate(product.factors[0], product.factors[1])) return product.factors[1];
  return {};
}

// `value` is x + constant.
inline bool IsSum(const Graph& graph, ValueId value, ValueId x, double constant) {
  const NodeId add = ProducedBy(graph, value, "Add");
  if (!add.valid() || HasActivation(graph.node(add))) return false;
  const ValueId a = graph.node(add).input(0), b = graph.node(add).input(1);
  const auto scalar = ScalarOf(graph, a == x ? b : a);
  return (a == x || b == x) && scalar && Near(*scalar, constant);
}

}  // namespace evoq
