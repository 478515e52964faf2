// Attention over Concat(past, new) keys and values takes them apart: Attention has inputs for the
// past, and gives what was joined as its outputs.
#include <set>

#include "kernels/attention/attention_inputs.h"
#include "passes/match.h"
#include "passes/size_probe.h"

namespace evoq {
namespace {

// Keys or values: those of the past, joined to new ones of four axes.
struct Joined {
  NodeId concat;
  ValueId past, now;
};

std::optional<Joined> JoinedOf(const Graph& graph, ValueId value) {
  const NodeId id = ProducedBy(graph, value, "Concat");
  if (!id.valid() || graph.node(id).inputs.size() != 2 || graph.value(value).type.quantized())
    return std::nullopt;
  const int64_t axis = graph.node(id).attrs.Int("axis");
  const Shape& shape = graph.value(value).type.shape;
  if (!shape.ranked() || shape.rank() != 4 || (axis != 2 && axis != -2)) return std::nullopt;
  return Joined{id, graph.node(id).input(0), graph.node(id).input(1)};
}

// Whether `node` is computed from `value`, though not as its reader.
bool LeadsTo(const Graph& graph, ValueId value, NodeId node) {
  std::set<NodeId> seen;
  std::vector<NodeId> open;
  const auto add = [&](ValueId v) {
    for (NodeId user : graph.value(v).users) {
      if (user != node && seen.insert(user).second) open.push_back(user);
    }
  };
  add(value);
  while (!open.empty()) {
    const NodeId id = open.back();
    open.pop_back();
    for (ValueId out : graph.node(id).outputs) {
      if (!out.valid()) continue;
      for (NodeId user : graph.value(out).users) {
        if (user == node) return true;
      }
      add(out);
    }
  }
  return false;
}

// Whether of what is computed from here on sizes alone are read, as of keys that were repeated for
// groups of heads before Attention took them as they are.
bool OnlySizes(const Graph& graph, NodeId id, int depth = 0) {
  if (IsOp(graph, id, "Shape")) return true;
  constexpr int kMostSteps = 8;
  if (depth > kMostSteps) return false;
  for (const ValueId out : graph.node(id).outputs) {
    if (!out.valid()) continue;
    if (graph.IsOutput(out) || graph.value(out).users.empty()) return false;
    for (const NodeId user : graph.value(out).users) {
      if (!OnlySizes(graph, user, depth + 1)) return false;
    }
  }
  return true;
}

// Who asks for the joined value's shape reads a Concat of its own: no run computes it.
void KeepShapes(Graph& graph, const Joined& joined) {
  const ValueId out = graph.node(joined.concat).outputs[0];
  ValueId copy;
  for (const NodeId user : std::vector<NodeId>(graph.value(out).users)) {
    if (!OnlySizes(graph, user)) continue;
    if (!copy.valid())
      copy = graph.Apply("Concat", graph.value(out).name + "_sizes", {joined.past, joined.now},
                         graph.node(joined.concat).attrs, graph.value(out).type);
    graph.ReplaceUsesIn(user, out, copy);
  }
}

bool Fuse(Graph& graph, NodeId id, SizeProbes& probes) {
  if (!IsOp(graph, id, "Attention")) return false;
  // With is_causal, places are counted from the past's end: without a past, from the first key.
  Node fused = graph.node(id);
  if (fused.input(kPastKey).valid() || fused.input(kLengths).valid() || fused.outputs.size() != 1 ||
      fused.attrs.Int("is_causal") != 0 || fused.attrs.Int("left_window_size", -1) >= 0 ||
      fused.attrs.Int("right_window_size", -1) >= 0)
    return false;
  const auto keys = JoinedOf(graph, fused.input(kK)), values = JoinedOf(graph, fused.input(kV));
  if (!keys || !values || keys->concat == values->concat ||
      !probes.Same(keys->now, 2, values->now, 2) || !probes.Same(keys->past, 2, values->past, 2))
    return false;
  for (const auto* joined : {&*keys, &*values}) {
    KeepShapes(graph, *joined);
    if (LeadsTo(graph, graph.node(joined->concat).outputs[0], id)) return false;
  }
  fused.inputs.resize(kPastValue + 1);
  fused.inputs[kK] = keys->now;
  fused.inputs[kV] = values->now;
  fused.inputs[kPastKey] = keys->past;
  fused.inputs[kPastValue] = values->past;
  graph.RemoveNode(id);
  for (const NodeId concat : {keys->concat, values->concat}) {
    const ValueId out = graph.node(concat).outputs[0];
    const bool read = graph.IsOutput(out) || !graph.value(out).users.empty();
    graph.RemoveNode(concat);
    fused.outputs.push_back(read ? out : ValueId{});
  }
  while (!fused.outputs.back().valid()) fused.outputs.pop_back();
  graph.AddNode(std::move(fused));
  return true;
}

Result<int> Run(Graph& graph) {
  SizeProbes probes(graph);
  return CountChanges(graph, [&](Graph& g, NodeId id) { return Fuse(g, id, probes); });
}

}  // namespace

extern const PassDef kAttentionPast = {
    .name = "attention-past",
    .doc = "Attention over a past joined to new keys and values takes both as inputs of its own.",
    .stage = Stage::kLower,
    .level = 3,
    .run = Run,
};

}  // namespace evoq
