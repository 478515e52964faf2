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

// What a scheme must leave alone: the layers of other schemes, and tables.
Reasons KeptFrom(const std::string& scheme, const Graph& graph, const MixedPlan& plan) {
  Reasons keep;
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (IsConstantTable(graph, node))
      keep[node.name] = {"table", "a plan by layer leaves tables in float32"};
    if (IsRecurrent(node))
      keep[node.name] = {"plan", "a plan by layer leaves recurrent operators in float32"};
    if (!IsLinear(node)) continue;
    const LayerChoice& choice = ChoiceFor(plan, node.name);
    if (choice.scheme != scheme)
      keep[node.name] =
          choice.why.empty() ? Reason{"plan", "computed as " + choice.scheme} : choice.why;
  }
  return keep;
}

}  // namespace

std::vector<NodeId> Layers(const Graph& graph) {
  std::vector<NodeId> layers;
  for (NodeId id : graph.order()) {
    if (IsLinear(graph.node(id))) layers.push_back(id);
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
    EVOQ_ASSIGN(QuantizeReport report, WithContext(scheme->run(graph, ranges, own), scheme->name));
    if (scheme->weights_only) {
      all.int8_weights += report.int8_weights;
      for (const auto& [name, count] : report.low_bit_weights) all.low_bit_weights[name] += count;
    }
    all.used.insert(report.used.begin(), report.used.end());
    all.not_used.insert(report.not_used.begin(), report.not_used.end());
    for (const std::string& name : layers->second) {
      if (scheme->precision == Precision::kFloat32)
        report.float_reasons[name] = ChoiceFor(plan, name).why;
      const auto refused = report.float_reasons.find(name);
      if (refused == report.float_reasons.end()) {
        all.nodes.Add(scheme->weights_only ? Precision::kFloat32 : scheme->precision);
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
