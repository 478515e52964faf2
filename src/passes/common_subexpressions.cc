#include <cstring>
#include <map>
#include <string>

#include "passes/match.h"

namespace evoq {
namespace {

// Constants above this size are not compared.
constexpr size_t kMaxConstantBytes = 4096;

// What makes two nodes compute the same: operator, attributes (compared exactly afterwards), inputs
// and output types.
std::string KeyOf(const Graph& graph, const Node& node) {
  std::string key = fmt::format("{}::{}{}", node.domain, node.op, node.attrs.ToString());
  for (ValueId in : node.inputs) key += fmt::format(",{}", in.index);
  for (ValueId out : node.outputs)
    key += out.valid() ? "|" + graph.value(out).type.ToString() : "|_";
  return key;
}

// Types as text round the scales of per-channel parameters: compare values.
bool SameOutputs(const Graph& graph, const Node& a, const Node& b) {
  for (size_t i = 0; i < a.outputs.size(); ++i) {
    if (a.outputs[i].valid() && !(graph.value(a.outputs[i]).type == graph.value(b.outputs[i]).type))
      return false;
  }
  return a.attrs == b.attrs;
}

int MergeConstants(Graph& graph) {
  int changes = 0;
  std::map<std::string, ValueId> seen;
  for (NodeId id : NodesOf(graph)) {
    for (size_t i = 0; i < graph.node(id).inputs.size(); ++i) {
      const ValueId in = graph.node(id).inputs[i];
      if (!in.valid() || !graph.value(in).is_constant()) continue;
      const Tensor& tensor = graph.value(in).constant;
      if (tensor.bytes() > kMaxConstantBytes || !tensor.layout().empty()) continue;
      std::string key = tensor.type().ToString() + "=";
      key.append(reinterpret_cast<const char*>(tensor.raw()), tensor.bytes());
      const ValueId first = seen.emplace(key, in).first->second;
      if (first == in || !(graph.value(first).type == graph.value(in).type)) continue;
      graph.SetInput(id, i, first);
      ++changes;
    }
  }
  return changes;
}

// All outputs of `copy` can be read from `first`: their keys are equal, so it has the same outputs.
bool Merge(Graph& graph, NodeId first, NodeId copy) {
  const Node a = graph.node(first), b = graph.node(copy);
  for (size_t i = 0; i < b.outputs.size(); ++i) {
    if (graph.IsOutput(b.outputs[i])) return false;
  }
  for (size_t i = 0; i < b.outputs.size(); ++i) {
    if (b.outputs[i].valid()) graph.ReplaceUses(b.outputs[i], a.outputs[i]);
  }
  return true;
}

Result<int> Run(Graph& graph) {
  int changes = MergeConstants(graph);
  std::map<std::string, NodeId> seen;
  for (NodeId id : NodesOf(graph)) {
    const Node& node = graph.node(id);
    const OpDef& op = OpOf(node);
    if (op.random || op.bodies > 0) continue;
    const auto [it, fresh] = seen.emplace(KeyOf(graph, node), id);
    if (fresh || !SameOutputs(graph, graph.node(it->second), node)) continue;
    changes += Merge(graph, it->second, id);
  }
  return changes;
}

}  // namespace

extern const PassDef kCommonSubexpressions = {
    .name = "common-subexpressions",
    .doc = "Computes equal nodes once and keeps equal small constants once.",
    .stage = Stage::kOptimize,
    .level = 1,
    .run = Run,
};

}  // namespace evoq
