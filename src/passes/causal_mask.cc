// A mask that sizes alone decide, and that hides the keys behind each query, is Attention's
// attribute is_causal: neither the mask nor the hidden scores are computed.
#include "kernels/attention/attention_inputs.h"
#include "passes/match.h"
#include "passes/size_probe.h"

namespace evoq {
namespace {

// The sizes of a run of Attention.
struct Sizes {
  int64_t queries = 0, keys = 0, past = 0;
};

// The length of [batch, heads, length, size] or [batch, length, heads * size].
int64_t LengthOf(const TensorType& type) {
  if (!type.shape.is_static() || type.shape.rank() < 3) return 0;
  return type.shape[type.shape.rank() - 2].value;
}

Sizes SizesOf(const Node& node, const SizeProbe& probe) {
  Sizes sizes{LengthOf(probe.type(node.input(kQ))), LengthOf(probe.type(node.input(kK)))};
  if (node.input(kPastKey).valid()) sizes.past = LengthOf(probe.type(node.input(kPastKey)));
  sizes.keys += sizes.past;
  return sizes;
}

// What the mask lets queries see, at all sizes.
std::optional<Sight> SightOfMask(const Graph& graph, const Node& node, SizeProbes& probes) {
  std::optional<Sight> all;
  int64_t most = 0;
  for (SizeProbe& probe : probes.all()) {
    const auto mask = probe.ValueOf(node.input(kMask));
    const Sizes sizes = SizesOf(node, probe);
    const auto sight = mask ? SightOf(*mask, sizes.queries, sizes.keys) : std::nullopt;
    if (!sight || (all && *sight != *all)) return std::nullopt;
    // is_causal counts places from the past's end.
    if (sight->causal && sizes.keys - sizes.queries != sizes.past) return std::nullopt;
    all = sight;
    most = std::max(most, sizes.keys);
  }
  if (probes.exact()) return all;
  const auto numbers = LargeNumbers(graph, node.input(kMask), most);
  if (!numbers || !numbers->empty()) return std::nullopt;
  return all;
}

bool Fuse(Graph& graph, NodeId id, SizeProbes& probes) {
  if (!IsOp(graph, id, "Attention")) return false;
  const Node& node = graph.node(id);
  if (!node.input(kMask).valid() || node.input(kLengths).valid()) return false;
  const auto sight = SightOfMask(graph, node, probes);
  if (!sight || (sight->window > 0 && node.attrs.Int("left_window_size", -1) >= 0)) return false;
  Node fused = node;
  fused.inputs[kMask] = ValueId{};
  while (!fused.inputs.back().valid()) fused.inputs.pop_back();
  if (sight->causal) fused.attrs.Set("is_causal", 1);
  if (sight->window > 0) fused.attrs.Set("left_window_size", sight->window - 1);
  graph.RemoveNode(id);
  graph.AddNode(std::move(fused));
  return true;
}

Result<int> Run(Graph& graph) {
  SizeProbes probes(graph);
  return CountChanges(graph, [&](Graph& g, NodeId id) { return Fuse(g, id, probes); });
}

}  // namespace

extern const PassDef kCausalMask = {
    .name = "causal-mask",
    .doc = "Attention's mask that sizes alone decide becomes is_causal where it hides later keys.",
    .stage = Stage::kLower,
    .level = 3,
    .run = Run,
};

}  // namespace evoq
