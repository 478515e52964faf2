#include "quant/channel_links.h"

#include <algorithm>

#include "ops/op.h"

namespace evoq {
namespace {

template <typename Factor>
void ScaleWeight(Graph& graph, NodeId id, const Factor& factor) {
  const Node& node = graph.node(id);
  const ValueId old = node.input(1);
  Tensor scaled = graph.value(old).constant.Clone();
  const WeightIndex view(node, scaled.sizes());
  float* w = scaled.mutable_data<float>();
  for (int64_t i = 0; i < scaled.elements(); ++i) w[i] = static_cast<float>(w[i] * factor(view, i));
  graph.SetInput(id, 1, graph.AddConstant(graph.value(old).name + ".scaled", std::move(scaled)));
}

}  // namespace

bool HasPlainWeights(const Graph& graph, const Node& node) {
  if (!IsLinear(node) || LinearFormOf(node)->outputs_by_group) return false;
  const Tensor* weight = graph.ConstantInput(node, 1);
  if (weight == nullptr || weight->dtype() != DType::kFloat32 || !weight->layout().empty() ||
      weight->elements() == 0 || (LinearFormOf(node)->two_operands && weight->shape().rank() != 2))
    return false;
  const Tensor* bias = graph.ConstantInput(node, 2);
  return !node.input(2).valid() || (bias != nullptr && bias->dtype() == DType::kFloat32);
}

std::vector<NodeId> ChannelReaders(const Graph& graph, ValueId value, int axis, int rank,
                                   int64_t channels) {
  std::vector<NodeId> readers = graph.value(value).users;
  if (graph.IsOutput(value)) return {};
  for (NodeId id : readers) {
    const Node& node = graph.node(id);
    if (!HasPlainWeights(graph, node) || node.input(0) != value || node.input(3) == value ||
        ChannelAxis(node, rank) != axis)
      return {};
    const WeightIndex view(node, graph.ConstantInput(node, 1)->sizes());
    if (view.inputs() * view.groups() != channels) return {};
  }
  return readers;
}

std::vector<ChannelLink> ChannelLinks(const Graph& graph) {
  std::vector<ChannelLink> links;
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (!HasPlainWeights(graph, node) || node.input(3).valid()) continue;
    const Result<Activation> activation = ActivationFromAttrs(node.attrs);
    const bool homogeneous =
        activation &&
        (activation->kind == ActivationKind::kNone || activation->kind == ActivationKind::kRelu ||
         activation->kind == ActivationKind::kLeakyRelu ||
         (activation->kind == ActivationKind::kClip && activation->alpha == 0));
    const ValueId value = node.outputs[0];
    const Shape& shape = graph.value(value).type.shape;
    if (!homogeneous || !shape.ranked()) continue;
    ChannelLink link{.value = value, .producer = id, .activation = *activation};
    link.channels = WeightIndex(node, graph.ConstantInput(node, 1)->sizes()).outputs();
    link.readers =
        ChannelReaders(graph, value, ChannelAxis(node, shape.rank()), shape.rank(), link.channels);
    if (!link.readers.empty()) links.push_back(std::move(link));
  }
  return links;
}

void ScaleOutputs(Graph& graph, NodeId id, std::span<const double> factors) {
  ScaleWeight(graph, id,
              [&](const WeightIndex& view, int64_t i) { return factors[view.OutputOf(i)]; });
  const ValueId old = graph.node(id).input(2);
  if (!old.valid()) return;
  Tensor scaled = graph.value(old).constant.Clone();
  float* bias = scaled.mutable_data<float>();
  for (int64_t m = 0; m < scaled.elements(); ++m)
    bias[m] = static_cast<float>(bias[m] * factors[m]);
  graph.SetInput(id, 2, graph.AddConstant(graph.value(old).name + ".scaled", std::move(scaled)));
}

void ScaleInputs(Graph& graph, NodeId id, std::span<const double> factors) {
  ScaleWeight(graph, id,
              [&](const WeightIndex& view, int64_t i) { return factors[view.InputOf(i)]; });
}

void AddToBias(Graph& graph, NodeId id, std::span<const double> terms) {
  const Node& node = graph.node(id);
  const ValueId old = node.input(2);
  Tensor sum = Tensor::Allocate({DType::kFloat32, Shape{static_cast<int64_t>(terms.size())}});
  for (size_t m = 0; m < terms.size(); ++m) {
    const double before = old.valid() ? graph.value(old).constant.values<float>()[m] : 0.0;
    sum.mutable_data<float>()[m] = static_cast<float>(before + terms[m]);
  }
  const std::string name = old.valid() ? graph.value(old).name + ".shifted" : node.name + ".bias";
  graph.SetInput(id, 2, graph.AddConstant(name, std::move(sum)));
}

}  // namespace evoq
