#include <cmath>

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
    if (argument.factors.size() == 1 && argument.factors[0] == x && Near(argument.constant, std::sqrt(0.5))) return true;
  }
  return false;
}

// x / 2 * (1 + Erf(x / sqrt(2))), the factors in any order.
std::optional<Replacement> Match(const Graph& graph, const Product& product) {
  if (!Near(product.constant, 0.5)) return std::nullopt;
  const ValueId x = GatedBy(product, [&](ValueId f, ValueId candidate) { return IsErfGate(graph, f, candidate); });
  if (!x.valid()) return std::nullopt;
  return Replacement{x, "Gelu", "", {}};
}

Result<int> Run(Graph& graph) { return ReplaceProducts(graph, Match); }

}  // namespace

extern const PassDef kFuseGelu;
const PassDef kFuseGelu = {"fuse-gelu", "x / 2 * (1 + Erf(x / sqrt 2)) becomes one Gelu.", Stage::kOptimize, Run};

}  // namespace evoq
