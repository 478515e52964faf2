#include "quant/mixed.h"

#include <algorithm>

#include "graph/float_reason.h"
#include "quant/plan.h"
#include "quant/recurrent_weights.h"

namespace evoq {
namespace {

const LayerChoice& ChoiceFor(const MixedPlan& plan, const std::string& name) {
  static const LayerChoice kFloat{"float32", {"plan", "the plan leaves it in float32"}};
  const auto choice = plan.find(name);
  return choice == plan.end() ? kFloat : choice->second;
}

// What a scheme must leave alone: the layers of other schemes.
Reasons KeptFrom(const std::string& scheme, const Graph& graph, const MixedPlan& plan) {
  Reasons keep;
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (!IsLinear(node) && !IsRecurrent(node) && !IsConstantTable(graph, node)) continue;
    const LayerChoice& choice = ChoiceFor(plan, node.name);
    if (choice.scheme != scheme)
      keep[node.name] =
          choice.why.empty() ? Reason{"plan", "computed as " + choice.scheme} : choice.why;
  }
  return keep;
}

// The types of a layer's weights, where it has some.
std::vector<TensorType> WeightTypes(const Graph& graph, const Node& node) {
  std::vector<TensorType> types;
  if (IsRecurrent(node)) {
    for (size_t i : RecurrentWeights(node)) types.push_back(graph.value(node.input(i)).type);
  } else if (const auto place = WeightPlaceOf(graph, node)) {
    types.push_back(graph.value(node.input(place->input)).type);
  }
  return types;
}

}  // namespace

bool IsLayer(const Graph& graph, const Node& node) {
  if (IsLinear(node)) return true;
  if (IsRecurrent(node)) return !ComputesRounded(graph, node);
  const auto place = WeightPlaceOf(graph, node);
  if (!place || !IsConstantTable(graph, node)) return false;
  const Tensor& table = *graph.ConstantInput(node, place->input);
  return IsFloat(table.dtype()) && !table.type().quantized() && table.shape().rank() >= 2 &&
         table.elements() >= kLeastNarrowed;
}

std::vector<NodeId> Layers(const Graph& graph) {
  std::vector<NodeId> layers;
  for (NodeId id : graph.order()) {
    if (IsLayer(graph, graph.node(id))) layers.push_back(id);
  }
  return layers;
}

Result<QuantizeReport> QuantizeMixed(Graph& graph, const Ranges& ranges,
                                     const QuantizeOptions& options, const MixedPlan& plan) {
  for (const auto& [name, choice] : plan) {
    if (FindScheme(choice.scheme) == nullptr)
      return Fail(ErrorCode::kUsage, "layer {}: {} is no scheme", name, choice.scheme);
  }
  std::map<std::string, std::vector<std::string>> by_scheme;
  for (NodeId id : Layers(graph))
    by_scheme[ChoiceFor(plan, graph.node(id).name).scheme].push_back(graph.node(id).name);
  QuantizeReport all;
  for (const QuantScheme* scheme : AllSchemes()) {
    const auto layers = by_scheme.find(scheme->name);
    if (layers == by_scheme.end()) continue;
    QuantizeOptions own = options;
    own.keep = KeptFrom(scheme->name, graph, plan);
    std::map<std::string, std::vector<TensorType>> before;  // of layers that are not linear
    for (const std::string& name : layers->second) {
      const Node& node = graph.node(graph.FindNode(name));
      if (!IsLinear(node)) before[name] = WeightTypes(graph, node);
    }
    EVOQ_ASSIGN(QuantizeReport report, WithContext(scheme->run(graph, ranges, own), scheme->name));
    all.int8_weights += report.int8_weights;
    for (const auto& [name, count] : report.low_bit_weights) all.low_bit_weights[name] += count;
    all.used.insert(report.used.begin(), report.used.end());
    all.not_used.insert(report.not_used.begin(), report.not_used.end());
    for (const std::string& name : layers->second) {
      Precision precision = scheme->weights_only ? Precision::kFloat32 : scheme->precision;
      if (scheme->precision == Precision::kFloat32) {
        report.float_reasons[name] = ChoiceFor(plan, name).why;
      } else if (const auto types = before.find(name); types != before.end()) {
        const Node& node = graph.node(graph.FindNode(name));
        precision = ComputesRounded(graph, node) ? Precision::kInt8 : Precision::kFloat32;
        if (types->second == WeightTypes(graph, node))
          report.float_reasons.try_emplace(
              name, "no-narrow-form", fmt::format("{} leaves {} as it is", scheme->name, node.op));
      }
      const auto refused = report.float_reasons.find(name);
      if (refused == report.float_reasons.end()) {
        all.nodes.Add(precision);
        continue;
      }
      all.nodes.Add(Precision::kFloat32);
      all.float_reasons[name] = refused->second;
      SetFloatReason(graph.attrs(graph.FindNode(name)), refused->second);
    }
  }
  return all;
}

}  // namespace evoq
