#include "passes/products.h"

namespace evoq {
namespace {

// x * Sigmoid(x).
std::optional<Replacement> Match(const Graph& graph, const Product& product) {
  const ValueId x = GatedBy(product, [&](ValueId f, ValueId candidate) {
    const NodeId sigmoid = ProducedBy(graph, f, "Sigmoid");
    return sigmoid.valid() && graph.node(sigmoid).input(0) == candidate;
  });
  if (!x.valid() || product.constant != 1) return std::nullopt;
  return Replacement{x, "Silu", "evoq", {}};
}

bool IsSilu(const Graph& graph, NodeId id) {
  return IsOp(graph, id, "Swish") && graph.node(id).attrs.Float("alpha", 1.0f) == 1.0f;
}

Result<int> Run(Graph& graph) {
  const int products = ReplaceProducts(graph, Match);
  const int named = CountChanges(graph, [](Graph& of, NodeId id) {
    if (!IsSilu(of, id)) return false;
    ReplaceNode(of, id, "Silu", "evoq", {of.node(id).input(0)});
    return true;
  });
  return products + named;
}

}  // namespace

extern const PassDef kFuseSilu = {
    .name = "fuse-silu",
    .doc = "x * Sigmoid(x), and Swish with alpha 1, become one Silu.",
    .stage = Stage::kOptimize,
    .level = 2,
    .run = Run,
};

}  // namespace evoq
