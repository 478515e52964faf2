#include "quant/split_activation.h"

#include "kernels/activation.h"

namespace evoq {

bool HasTableActivation(const Node& node) {
  const auto activation = ActivationFromAttrs(node.attrs);
  return activation && !IsPiecewiseLinear(activation->kind);
}

void SplitActivation(Graph& graph, NodeId id) {
  const Activation activation = ActivationFromAttrs(graph.node(id).attrs).value();
  for (const char* name : {"activation", "activation_alpha", "activation_beta"}) graph.attrs(id).Erase(name);
  const ValueId y = graph.node(id).outputs[0];
  const ValueId linear = graph.AddValue(graph.value(y).name + ".linear", graph.value(y).type);
  graph.SetOutput(id, 0, linear);
  Node node{.op = ActivationName(activation.kind), .name = graph.node(id).name + ".activation", .inputs = {linear}, .outputs = {y}};
  if (activation.kind == ActivationKind::kSilu) node.domain = "evoq";
  graph.AddNode(std::move(node));
}

}  // namespace evoq
