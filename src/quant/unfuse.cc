#include "quant/unfuse.h"

#include "kernels/activation.h"
#include "passes/linear.h"
#include "quant/plan.h"

namespace evoq {

bool HasTableActivation(const Node& node) {
  const auto activation = ActivationFromAttrs(node.attrs);
  return activation && !IsPiecewiseLinear(activation->kind);
}

bool HasForeignActivation(const Node& node) {
  const auto activation = ActivationFromAttrs(node.attrs);
  return activation &&
         (activation->kind == ActivationKind::kLeakyRelu || !IsPiecewiseLinear(activation->kind));
}

bool HasSlopes(const Node& node) {
  const auto product = ProductActivationFromAttrs(node.attrs);
  return product && !product->slopes.empty();
}

void SplitActivation(Graph& graph, NodeId id) {
  const ProductActivation product = ProductActivationFromAttrs(graph.node(id).attrs).value();
  const Activation& activation = product.activation;
  EraseActivation(graph.attrs(id));
  const ValueId y = graph.node(id).outputs[0];
  const ValueId linear = graph.AddValue(graph.value(y).name + ".linear", graph.value(y).type);
  graph.SetOutput(id, 0, linear);
  Node node{.op = ActivationName(activation.kind),
            .name = graph.node(id).name + ".activation",
            .inputs = {linear},
            .outputs = {y}};
  if (activation.kind == ActivationKind::kClip) {
    node.inputs.push_back(graph.AddConstant(node.name + ".low", Tensor::Scalar(activation.alpha)));
    node.inputs.push_back(graph.AddConstant(node.name + ".high", Tensor::Scalar(activation.beta)));
  }
  if (!product.slopes.empty()) {
    std::vector<int64_t> sizes(static_cast<size_t>(graph.value(y).type.shape.rank()), 1);
    sizes[static_cast<size_t>(ChannelAxis(graph, graph.node(id)))] =
        static_cast<int64_t>(product.slopes.size());
    node.inputs.push_back(graph.AddConstant(
        node.name + ".slope", Tensor::FromValues<float>(Shape(sizes), product.slopes)));
  }
  if (activation.kind == ActivationKind::kSilu) node.domain = "evoq";
  if (activation.kind == ActivationKind::kLeakyRelu) node.attrs.Set("alpha", activation.alpha);
  graph.AddNode(std::move(node));
}

bool HasResidual(const Node& node) { return IsLinear(node) && node.input(3).valid(); }

void SplitResidual(Graph& graph, NodeId id) {
  const ValueId y = graph.node(id).outputs[0], residual = graph.node(id).input(3);
  const ValueId product = graph.AddValue(graph.value(y).name + ".product", graph.value(y).type);
  Node add{.op = "Add",
           .name = graph.node(id).name + ".add",
           .inputs = {product, residual},
           .outputs = {y}};
  for (const auto& [name, value] : graph.node(id).attrs) {
    if (name.starts_with("activation")) add.attrs.Set(name, value);
  }
  for (const auto& [name, value] : add.attrs) graph.attrs(id).Erase(name);
  graph.SetInput(id, 3, ValueId());
  graph.SetOutput(id, 0, product);
  graph.AddNode(std::move(add));
}

std::span<const QdqTarget> AllQdqTargets() {
  static constexpr QdqTarget kTargets[] = {
      {"evoq", "one rounding after the residual is added, as evoq computes it", "", false, true,
       false, false},
      {"ort", "every operator between Q/DQ pairs of its own: ONNX Runtime's integer operators",
       "ort-cpu", true, true, true, false},
      {"tensorrt",
       "the residual quantized, the product it is added to not; one rounding after each "
       "activation; int8 with zero point 0",
       "tensorrt", false, false, false, true},
      {"openvino",
       "one rounding after residual and activation, which OpenVINO takes into the convolution",
       "openvino", false, false, false, false},
  };
  return kTargets;
}

const QdqTarget* FindQdqTarget(std::string_view name) {
  for (const QdqTarget& target : AllQdqTargets()) {
    if (name == target.name || (!name.empty() && name == target.runtime)) return &target;
  }
  return nullptr;
}

}  // namespace evoq
