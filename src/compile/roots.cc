#include "compile/roots.h"

#include <set>

#include "ops/op.h"

namespace evoq {
namespace {

// A view that changes the element type or its scale computes something.
bool KeepsBytes(const Graph& graph, const Node& node) {
  const OpDef* op = FindOp(node);
  if (op == nullptr || !op->view || !node.outputs[0].valid()) return false;
  TensorType from = graph.value(node.inputs[0]).type;
  const TensorType& to = graph.value(node.outputs[0]).type;
  from.shape = to.shape;
  return from == to;
}

}  // namespace

Roots::Roots(const Graph& graph) : root_(graph.value_count()) {
  for (int i = 0; i < graph.value_count(); ++i) root_[i] = ValueId{i};
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (IsView(graph, node)) root_[node.outputs[0].index] = root_[node.inputs[0].index];
  }
}

bool Roots::IsView(const Graph& graph, const Node& node) {
  return KeepsBytes(graph, node) && !node.attrs.Has(kCopies);
}

bool Roots::IsCopy(const Graph& graph, const Node& node) {
  return KeepsBytes(graph, node) && node.attrs.Has(kCopies);
}

ValueId AddCopy(Graph& graph, ValueId value, const std::string& name) {
  return graph.Apply("Identity", name, {value}, Attrs::Of(kCopies, 1), graph.value(value).type);
}

Status SeparateOutputs(Graph& graph) {
  const Roots roots(graph);
  std::set<ValueId> taken;
  for (size_t i = 0; i < graph.outputs().size(); ++i) {
    const ValueId out = graph.outputs()[i];
    const ValueId root = roots[out];
    if (graph.value(root).producer.valid() && taken.insert(root).second) continue;
    graph.ReplaceOutput(i, AddCopy(graph, out, "copy_" + graph.value(out).name));
  }
  return graph.Sort();
}

}  // namespace evoq
