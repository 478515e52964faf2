#include "certify/attribution.h"

#include <algorithm>
#include <set>

#include "quant/plan.h"

namespace evoq {
namespace {

bool Narrows(const Node& node) {
  if (node.op == "Cast") return node.attrs.Int("to") == static_cast<int64_t>(DType::kBfloat16);
  return node.op.find("Quantize") != std::string::npos && !node.op.starts_with("Dequantize");
}

bool IsRealActivation(const Value& value) {
  return !value.is_constant() && value.type.dtype == DType::kFloat32;
}

// Finds the layer of a node of a lowered graph.
class StepOwner {
 public:
  StepOwner(const Graph& graph, const std::map<std::string, int>& by_name)
      : graph_(graph), by_name_(by_name) {}

  int Of(NodeId id) {
    const auto [it, fresh] = known_.emplace(id, 0);  // 0 until found
    if (!fresh) return it->second;
    const int owner = Find(id);
    return known_[id] = owner;
  }

 private:
  int Find(NodeId id) {
    const Node& node = graph_.node(id);
    for (ValueId out : node.outputs) {
      if (!Narrows(node) || !out.valid()) continue;
      for (NodeId user : graph_.value(out).users) return Of(user);
    }
    // "conv_1_float": what was made of conv_1; "loop_1/conv": what loop_1 runs.
    for (std::string name = node.name;;) {
      if (const auto found = by_name_.find(name); found != by_name_.end()) return found->second;
      const size_t end = name.find_last_of("_./");
      if (end == std::string::npos) break;
      name.resize(end);
    }
    for (ValueId in : node.inputs) {
      if (in.valid() && graph_.value(in).producer.valid()) return Of(graph_.value(in).producer);
    }
    for (ValueId out : node.outputs) {
      if (!out.valid()) continue;
      for (NodeId user : graph_.value(out).users) return Of(user);
    }
    return 0;
  }

  const Graph& graph_;
  const std::map<std::string, int>& by_name_;
  std::map<NodeId, int> known_;
};

}  // namespace

Attribution::Attribution(const Graph& graph) {
  for (NodeId id : Layers(graph)) {
    names_.push_back(graph.node(id).name);
    is_table_.push_back(IsConstantTable(graph, graph.node(id)));
  }
  std::map<NodeId, int> owner;
  int next = 0;
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    int layer = 0;
    if (IsLayer(graph, node)) {
      layer = next++;
    } else {
      for (size_t i = node.inputs.size(); i-- > 0;) {  // the first real input counts
        if (!node.inputs[i].valid()) continue;
        const Value& value = graph.value(node.inputs[i]);
        if (IsRealActivation(value) && value.producer.valid()) layer = owner.at(value.producer);
      }
    }
    owner[id] = by_name_[node.name] = layer;
  }
  for (int i = 0; i < graph.value_count(); ++i) {
    const Value& value = graph.value(ValueId{i});
    if (!IsRealActivation(value)) continue;
    CostModel::Link link;
    if (value.producer.valid()) {
      if (!graph.alive(value.producer)) continue;
      link.from = owner.at(value.producer);
    }
    std::set<int> readers;
    for (NodeId user : value.users) readers.insert(owner.at(user));
    if (graph.IsOutput(ValueId{i})) readers.insert(-1);
    readers.erase(link.from);
    link.to.assign(readers.begin(), readers.end());
    link.elements = static_cast<double>(value.type.shape.elements().value_or(0));
    if (!link.to.empty()) links_.push_back(std::move(link));
  }
}

std::vector<int> Attribution::OfSteps(const Program& program) const {
  StepOwner owner(*program.graph, by_name_);
  std::vector<int> layers;
  for (const Step& step : program.steps) layers.push_back(owner.Of(step.node));
  return layers;
}

}  // namespace evoq
