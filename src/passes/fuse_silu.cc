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

Result<int> Run(Graph& graph) { return ReplaceProducts(graph, Match); }

}  // namespace

extern const PassDef kFuseSilu = {
    .name = "fuse-silu",
    .doc = "x * Sigmoid(x) becomes one Silu.",
    .stage = Stage::kOptimize,
    .level = 2,
    .run = Run,
};

}  // namespace evoq
