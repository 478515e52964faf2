#include "quant/scalable_values.h"

#include <algorithm>

#include "ops/op.h"
#include "quant/channel_links.h"

namespace evoq {
namespace {

using Maker = ScalableValue::Maker;

// A normalization over its last axis with a constant scale, and a bias that is constant or none.
bool IsScaledNormalization(const Graph& graph, const Node& node) {
  const OpDef* op = FindOp(node);
  if (op == nullptr || op->axes != AxisUse::kTrailing || !node.domain.empty()) return false;
  const Shape& shape = graph.value(node.outputs[0]).type.shape;
  const Tensor* scale = graph.ConstantInput(node, 1);
  const Tensor* bias = graph.ConstantInput(node, 2);
  return shape.ranked() && scale != nullptr && scale->dtype() == DType::kFloat32 &&
         scale->shape().rank() == 1 && (!node.input(2).valid() || bias != nullptr) &&
         (bias == nullptr ||
          (bias->dtype() == DType::kFloat32 && bias->elements() == scale->elements()));
}

// The layer that makes `factor` for the node alone, and its number of channels; nothing where that
// is not so.
std::optional<std::pair<NodeId, int64_t>> FactorMaker(const Graph& graph, NodeId id,
                                                      ValueId factor) {
  if (!factor.valid() || graph.IsOutput(factor) || !graph.value(factor).producer.valid() ||
      graph.value(factor).users != std::vector<NodeId>{id})
    return std::nullopt;
  const NodeId maker = graph.value(factor).producer;
  const Node& node = graph.node(maker);
  const Result<Activation> activation = ActivationFromAttrs(node.attrs);
  if (!HasPlainWeights(graph, node) || node.input(3).valid() || !activation ||
      activation->kind != ActivationKind::kNone)
    return std::nullopt;
  return std::pair(maker, WeightIndex(node, graph.ConstantInput(node, 1)->sizes()).outputs());
}

// The value of a product by elements of two values of one shape.
std::optional<ScalableValue> FromFactor(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  if (node.op != "Mul" || !node.domain.empty() || node.inputs.size() != 2 ||
      node.input(0) == node.input(1))
    return std::nullopt;
  const Shape& shape = graph.value(node.outputs[0]).type.shape;
  for (const ValueId factor : {node.input(1), node.input(0)}) {
    const auto made = FactorMaker(graph, id, factor);
    if (!made || !shape.ranked() || graph.value(factor).type.shape.rank() != shape.rank()) continue;
    const int axis = ChannelAxis(graph.node(made->first), shape.rank());
    if (!shape[axis].known() || shape[axis].value != made->second) continue;
    std::vector<NodeId> readers =
        ChannelReaders(graph, node.outputs[0], axis, shape.rank(), made->second);
    if (!readers.empty())
      return ScalableValue{node.outputs[0], made->first, Maker::kFactor, axis, std::move(readers)};
  }
  return std::nullopt;
}

// Input i of the normalization, a constant, divided by s.
void DivideParameter(Graph& graph, NodeId id, size_t i, std::span<const double> s) {
  const ValueId old = graph.node(id).input(i);
  if (!old.valid()) return;
  Tensor divided = graph.value(old).constant.Clone();
  for (size_t c = 0; c < s.size(); ++c) {
    float& v = divided.mutable_data<float>()[c];
    v = static_cast<float>(v / s[c]);
  }
  graph.SetInput(id, i, graph.AddConstant(graph.value(old).name + ".smoothed", std::move(divided)));
}

}  // namespace

std::vector<ScalableValue> ScalableValues(const Graph& graph, bool factors) {
  std::vector<ScalableValue> found;
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (node.outputs.empty() || !IsScaledNormalization(graph, node)) continue;
    const int rank = graph.value(node.outputs[0]).type.shape.rank();
    std::vector<NodeId> readers = ChannelReaders(graph, node.outputs[0], rank - 1, rank,
                                                 graph.ConstantInput(node, 1)->elements());
    if (!readers.empty())
      found.push_back({node.outputs[0], id, Maker::kNormalization, rank - 1, std::move(readers)});
  }
  for (ChannelLink& link : ChannelLinks(graph)) {
    if (link.activation.kind == ActivationKind::kClip) continue;
    const int rank = graph.value(link.value).type.shape.rank();
    const int axis = ChannelAxis(graph.node(link.producer), rank);
    found.push_back({link.value, link.producer, Maker::kLayer, axis, std::move(link.readers)});
  }
  for (NodeId id : factors ? graph.order() : std::vector<NodeId>()) {
    if (auto value = FromFactor(graph, id)) found.push_back(std::move(*value));
  }
  return found;
}

void DivideChannels(Graph& graph, const ScalableValue& at, std::span<const double> s) {
  if (at.kind == Maker::kNormalization) {
    DivideParameter(graph, at.maker, 1, s);
    DivideParameter(graph, at.maker, 2, s);
  } else {
    std::vector<double> inverse(s.size());
    std::ranges::transform(s, inverse.begin(), [](double v) { return 1 / v; });
    ScaleOutputs(graph, at.maker, inverse);
  }
  for (NodeId reader : at.readers) ScaleInputs(graph, reader, s);
}

}  // namespace evoq
