#include "certify/sized_by_data.h"

#include "reference/reference.h"

namespace evoq {

std::set<ValueId> SizedByData(const Graph& graph, std::span<const Tensor> inputs) {
  Graph bound = graph;
  std::map<std::string, std::vector<int64_t>> shapes;
  for (size_t i = 0; i < inputs.size() && i < graph.inputs().size(); ++i) {
    if (inputs[i].type().is_tensor())
      shapes[graph.value(graph.inputs()[i]).name] = inputs[i].sizes();
  }
  std::set<ValueId> values;
  if (!BindShapes(bound, shapes)) return values;
  for (NodeId id : bound.order()) {
    for (ValueId out : bound.node(id).outputs) {
      if (!out.valid() || !bound.value(out).type.is_tensor()) continue;
      const Shape& shape = bound.value(out).type.shape;
      if (shape.ranked() && !shape.is_static()) values.insert(out);
    }
  }
  return values;
}

}  // namespace evoq
