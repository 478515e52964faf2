#include "parity/cut.h"

#include <algorithm>
#include <map>

namespace evoq {
namespace {

// Marks the value as an output; its position.
size_t OutputOf(Graph& graph, ValueId value) {
  if (!graph.IsOutput(value)) graph.MarkOutput(value);
  const auto& outputs = graph.outputs();
  return static_cast<size_t>(std::find(outputs.begin(), outputs.end(), value) - outputs.begin());
}

}  // namespace

std::vector<ValueId> RealValues(const Graph& graph) {
  std::vector<ValueId> values;
  for (NodeId id : graph.order()) {
    for (ValueId v : graph.node(id).outputs) {
      if (!v.valid()) continue;
      const TensorType& type = graph.value(v).type;
      if (type.is_tensor() && (IsFloat(type.dtype) || type.quantized())) values.push_back(v);
    }
  }
  return values;
}

TappedGraph Tap(const Graph& graph, std::span<const ValueId> values) {
  TappedGraph tapped{graph, {}, {}};
  for (ValueId v : values) tapped.outputs.push_back(OutputOf(tapped.graph, v));
  return tapped;
}

Result<TappedGraph> CutAt(const Graph& graph, std::span<const ValueId> values) {
  TappedGraph cut{graph, {}, {}};
  for (ValueId v : values) {
    const Value value = cut.graph.value(v);
    cut.outputs.push_back(OutputOf(cut.graph, v));
    cut.givens.push_back(value.users.empty() ? -1 : static_cast<int>(cut.graph.inputs().size()));
    if (value.users.empty()) continue;
    const ValueId given = cut.graph.AddInput(value.name + ".given", value.type);
    for (NodeId user : value.users) cut.graph.ReplaceUsesIn(user, v, given);
  }
  EVOQ_TRY(cut.graph.Sort());
  return cut;
}

std::vector<StretchBefore> Stretches(const Graph& graph, std::span<const ValueId> values) {
  std::map<ValueId, size_t> index;
  for (size_t i = 0; i < values.size(); ++i) index[values[i]] = i;
  std::vector<StretchBefore> stretches;
  for (ValueId value : values) {
    std::set<size_t> found;
    std::set<NodeId> seen;
    std::vector<NodeId> open = {graph.value(value).producer};
    while (!open.empty()) {
      const NodeId id = open.back();
      open.pop_back();
      if (!id.valid() || !seen.insert(id).second) continue;
      for (ValueId in : graph.node(id).inputs) {
        if (!in.valid()) continue;
        if (const auto it = index.find(in); it != index.end()) {
          found.insert(it->second);
        } else {
          open.push_back(graph.value(in).producer);
        }
      }
    }
    stretches.push_back({{found.begin(), found.end()}, static_cast<int>(seen.size())});
  }
  return stretches;
}

}  // namespace evoq
