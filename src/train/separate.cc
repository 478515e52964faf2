#include "train/separate.h"

#include <algorithm>
#include <map>
#include <vector>

#include "train/gradient.h"

namespace evoq {
namespace {

bool IsEven(const Tensor& tensor) {
  if (tensor.dtype() != DType::kFloat32 || tensor.type().quantized() || !tensor.layout().empty())
    return false;
  const auto values = tensor.values<float>();
  return std::ranges::all_of(values, [&](float v) { return v == values[0]; });
}

// Identity nodes of constants: a constant of its own, by the name that the node gives it, or what
// they read.
void ResolveNames(Graph& graph) {
  for (NodeId id : std::vector<NodeId>(graph.order())) {
    const Node& node = graph.node(id);
    if (node.op != "Identity" || !node.domain.empty() || graph.IsOutput(node.outputs[0])) continue;
    const ValueId from = node.input(0), to = node.outputs[0];
    if (!from.valid() || !graph.value(from).is_constant()) continue;
    const Tensor constant = graph.value(from).constant;
    graph.RemoveNode(id);
    if (IsEven(constant)) {
      graph.SetConstant(to, constant);
    } else {
      graph.ReplaceUses(to, from);
    }
  }
}

struct Reader {
  NodeId node;
  size_t input;
};

// Whether training may change what the reader reads.
bool Trains(const Graph& graph, const Reader& reader) {
  const GradientDef* const row = FindGradient(graph.node(reader.node));
  return row != nullptr && row->TrainsConstant(reader.input);
}

bool ReadsMeans(const Graph& graph, const Reader& reader) {
  return graph.node(reader.node).op == "BatchNormalization" && reader.input >= 3;
}

// Whether both nodes read a constant whose elements differ, at the same place: one layer.
bool SameLayer(const Graph& graph, NodeId a, NodeId b) {
  const std::vector<ValueId>&x = graph.node(a).inputs, &y = graph.node(b).inputs;
  for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
    if (x[i] != y[i] || !x[i].valid() || !graph.value(x[i]).is_constant()) continue;
    const Tensor& constant = graph.value(x[i]).constant;
    if (constant.dtype() == DType::kFloat32 && constant.elements() > 1 && !IsEven(constant))
      return true;
  }
  return false;
}

}  // namespace

Status SeparateParameters(Graph& graph) {
  ResolveNames(graph);
  EVOQ_TRY(graph.Sort());
  std::map<ValueId, std::vector<Reader>> readers;
  for (NodeId id : graph.order()) {
    const std::vector<ValueId>& inputs = graph.node(id).inputs;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].valid() && graph.value(inputs[i]).is_constant())
        readers[inputs[i]].push_back({id, i});
    }
  }
  for (const auto& [value, all] : readers) {
    const Tensor constant = graph.value(value).constant;
    const bool even = constant.elements() > 1 && IsEven(constant);
    std::vector<std::pair<Reader, ValueId>> layers = {{all[0], value}};
    for (size_t k = 1; k < all.size(); ++k) {
      const bool means = ReadsMeans(graph, all[k]) || ReadsMeans(graph, all[0]);
      if (!means && (!even || !Trains(graph, all[k]))) continue;
      const auto same = std::ranges::find_if(layers, [&](const auto& layer) {
        return !means && SameLayer(graph, layer.first.node, all[k].node);
      });
      const ValueId own = same != layers.end()
                              ? same->second
                              : graph.AddConstant(graph.value(value).name, constant);
      if (own != value) layers.emplace_back(all[k], own);
      graph.SetInput(all[k].node, all[k].input, own);
    }
  }
  return {};
}

}  // namespace evoq
