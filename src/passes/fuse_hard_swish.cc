#include "passes/products.h"

namespace evoq {
namespace {

// The x of Clip(x + 3, 0, 6), or an invalid id.
ValueId ShiftedClip(const Graph& graph, ValueId value) {
  const NodeId clip = ProducedBy(graph, value, "Clip");
  if (!clip.valid()) return {};
  const auto activation = ActivationOf(graph, graph.node(clip));
  if (!activation || activation->alpha != 0 || activation->beta != 6) return {};
  const ValueId sum = graph.node(clip).input(0);
  const NodeId add = ProducedBy(graph, sum, "Add");
  if (!add.valid()) return {};
  for (ValueId x : graph.node(add).inputs) {
    if (IsSum(graph, sum, x, 3)) return x;
  }
  return {};
}

bool IsHardSigmoid(const Graph& graph, ValueId value, ValueId x) {
  const NodeId gate = ProducedBy(graph, value, "HardSigmoid");
  if (!gate.valid() || graph.node(gate).input(0) != x) return false;
  const Attrs& attrs = graph.node(gate).attrs;
  return Near(attrs.Float("alpha", 0.2f), 1.0 / 6) && Near(attrs.Float("beta", 0.5f), 0.5);
}

// x * Clip(x + 3, 0, 6) / 6, x * HardSigmoid(x), and Clip(x + 3, 0, 6) / 6 alone, which is
// HardSigmoid.
std::optional<Replacement> Match(const Graph& graph, const Product& product) {
  if (product.factors.size() == 1 && Near(product.constant, 1.0 / 6)) {
    const ValueId x = ShiftedClip(graph, product.factors[0]);
    if (!x.valid()) return std::nullopt;
    Attrs attrs;
    attrs.Set("alpha", 1.0f / 6);
    attrs.Set("beta", 0.5f);
    return Replacement{x, "HardSigmoid", "", std::move(attrs)};
  }
  const ValueId x = GatedBy(product, [&](ValueId f, ValueId candidate) {
    if (Near(product.constant, 1.0 / 6)) return ShiftedClip(graph, f) == candidate;
    return product.constant == 1 && IsHardSigmoid(graph, f, candidate);
  });
  if (!x.valid()) return std::nullopt;
  return Replacement{x, "HardSwish", "", {}};
}

Result<int> Run(Graph& graph) { return ReplaceProducts(graph, Match); }

}  // namespace

extern const PassDef kFuseHardSwish = {
    .name = "fuse-hard-swish",
    .doc = "x * Clip(x + 3, 0, 6) / 6 and x * HardSigmoid(x) become one HardSwish.",
    .stage = Stage::kOptimize,
    .level = 2,
    .run = Run,
};

}  // namespace evoq
