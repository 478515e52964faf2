#include <cmath>
#include <numbers>

#include "passes/products.h"

namespace evoq {
namespace {

// `value` is 1 + Erf(x / sqrt(2)).
bool IsErfGate(const Graph& graph, ValueId value, ValueId x) {
  const NodeId add = ProducedBy(graph, value, "Add");
  if (!add.valid()) return false;
  for (ValueId term : graph.node(add).inputs) {
    const NodeId erf = ProducedBy(graph, term, "Erf");
    if (!erf.valid() || !IsSum(graph, value, term, 1)) continue;
    const Product argument = ProductOf(graph, graph.node(erf).input(0));
    if (argument.factors.size() == 1 && argument.factors[0] == x &&
        Near(argument.constant, std::sqrt(0.5)))
      return true;
  }
  return false;
}

// `value` is 0.044715 x^3.
bool IsCube(const Graph& graph, ValueId value, ValueId x) {
  const Product product = ProductOf(graph, value);
  if (!Near(product.constant, 0.044715)) return false;
  if (product.factors == std::vector<ValueId>{x, x, x}) return true;
  const NodeId pow =
      product.factors.size() == 1 ? ProducedBy(graph, product.factors[0], "Pow") : NodeId{};
  return pow.valid() && graph.node(pow).input(0) == x &&
         ScalarOf(graph, graph.node(pow).input(1)) == 3.0f;
}

// `value` is 1 + Tanh(sqrt(2 / pi) * (x + 0.044715 x^3)).
bool IsTanhGate(const Graph& graph, ValueId value, ValueId x) {
  const NodeId add = ProducedBy(graph, value, "Add");
  if (!add.valid()) return false;
  for (ValueId term : graph.node(add).inputs) {
    const NodeId tanh = ProducedBy(graph, term, "Tanh");
    if (!tanh.valid() || !IsSum(graph, value, term, 1)) continue;
    const Product argument = ProductOf(graph, graph.node(tanh).input(0));
    if (argument.factors.size() != 1 || !Near(argument.constant, std::sqrt(2 / std::numbers::pi)))
      continue;
    const NodeId sum = ProducedBy(graph, argument.factors[0], "Add");
    if (!sum.valid()) continue;
    const ValueId a = graph.node(sum).input(0), b = graph.node(sum).input(1);
    if ((a == x && IsCube(graph, b, x)) || (b == x && IsCube(graph, a, x))) return true;
  }
  return false;
}

// x / 2 * (1 + Erf(x / sqrt(2))), the factors in any order, or its approximation by Tanh.
std::optional<Replacement> Match(const Graph& graph, const Product& product) {
  if (!Near(product.constant, 0.5)) return std::nullopt;
  const ValueId exact =
      GatedBy(product, [&](ValueId f, ValueId x) { return IsErfGate(graph, f, x); });
  if (exact.valid()) return Replacement{exact, "Gelu", "", {}};
  const ValueId x = GatedBy(
      product, [&](ValueId f, ValueId candidate) { return IsTanhGate(graph, f, candidate); });
  if (!x.valid()) return std::nullopt;
  return Replacement{x, "Gelu", "", Attrs::Of("approximate", "tanh")};
}

Result<int> Run(Graph& graph) { return ReplaceProducts(graph, Match); }

}  // namespace

extern const PassDef kFuseGelu = {
    .name = "fuse-gelu",
    .doc = "x / 2 * (1 + Erf(x / sqrt 2)), or its Tanh form, becomes one Gelu.",
    .stage = Stage::kOptimize,
    .level = 2,
    .run = Run,
};

}  // namespace evoq
