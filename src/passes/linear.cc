#include "passes/linear.h"

namespace evoq {

int ChannelAxis(const Graph& graph, const Node& linear) {
  if (linear.op != "MatMul") return 1;
  const Shape& y = graph.value(linear.outputs[0]).type.shape;
  return y.ranked() ? y.rank() - 1 : -1;
}

std::optional<int64_t> OutputChannels(const Graph& graph, const Node& linear) {
  if (!linear.input(1).valid()) return std::nullopt;
  const Shape& w = graph.value(linear.input(1)).type.shape;
  if (!w.ranked() || w.rank() < 2) return std::nullopt;
  const Dim& dim = linear.op == "Conv" ? w[0] : linear.op == "ConvTranspose" ? w[1] : w[w.rank() - 1];
  if (!dim.known() || dim.value == 0) return std::nullopt;
  return linear.op == "ConvTranspose" ? dim.value * linear.attrs.Int("group", 1) : dim.value;
}

std::optional<std::vector<float>> PerChannel(const Graph& graph, ValueId constant, int rank, int axis, int64_t channels) {
  const Tensor* tensor = FloatConstant(graph, constant);
  if (tensor == nullptr || tensor->shape().rank() > rank || axis < 0) return std::nullopt;
  const auto values = tensor->values<float>();
  if (values.size() == 1) return std::vector<float>(channels, values[0]);
  const auto sizes = tensor->sizes();
  const int missing = rank - static_cast<int>(sizes.size());
  for (int i = 0; i < static_cast<int>(sizes.size()); ++i) {
    if (sizes[i] != (i + missing == axis ? channels : 1)) return std::nullopt;
  }
  return std::vector<float>(values.begin(), values.end());
}

bool TakesBias(const Graph& graph, const Node& linear) {
  if (!IsLinear(linear) || HasActivation(linear) || linear.attrs.Int("channels_last") != 0) return false;
  for (size_t i = 0; i < linear.inputs.size(); ++i) {
    const ValueId in = linear.inputs[i];
    if (in.valid() && (i == 1 ? false : graph.value(in).type.quantized())) return false;
  }
  const TensorType& y = graph.value(linear.outputs[0]).type;
  if (y.dtype != DType::kFloat32 || y.quantized() || !OutputChannels(graph, linear)) return false;
  const ValueId bias = linear.input(2);
  if (!bias.valid()) return true;
  const Tensor* tensor = FloatConstant(graph, bias);
  return tensor != nullptr && tensor->elements() == *OutputChannels(graph, linear);
}

bool TakesFactor(const Graph& graph, const Node& linear) {
  return TakesBias(graph, linear) && !linear.input(3).valid() && FloatConstant(graph, linear.input(1)) != nullptr;
}

void ReplaceConstant(Graph& graph, NodeId id, size_t i, Tensor tensor) {
  const ValueId old = graph.node(id).input(i);
  if (graph.OnlyUser(old).valid()) {
    graph.SetConstant(old, std::move(tensor));
  } else {
    graph.SetInput(id, i, graph.AddConstant(graph.value(old).name, std::move(tensor)));
  }
}

namespace {

// Weights with each output channel multiplied by its factor.
Tensor Scaled(const Node& linear, const Tensor& weights, const std::vector<float>& factor) {
  Tensor scaled = weights.Clone();
  float* w = scaled.mutable_data<float>();
  const auto sizes = weights.sizes();
  const int64_t count = weights.elements();
  if (linear.op == "MatMul") {
    for (int64_t i = 0; i < count; ++i) w[i] *= factor[i % sizes.back()];
  } else if (linear.op == "Conv") {
    const int64_t inner = count / sizes[0];
    for (int64_t i = 0; i < count; ++i) w[i] *= factor[i / inner];
  } else {  // ConvTranspose: [C, M/group, k...]; input channels [g C/group, (g+1) C/group) make group g's outputs
    const int64_t groups = linear.attrs.Int("group", 1), per_group = sizes[0] / groups;
    const int64_t inner = count / (sizes[0] * sizes[1]);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t c = i / (sizes[1] * inner), m = i / inner % sizes[1];
      w[i] *= factor[c / per_group * sizes[1] + m];
    }
  }
  return scaled;
}

}  // namespace

void ScaleChannels(Graph& graph, NodeId linear, const std::vector<float>& factor) {
  const Node node = graph.node(linear);
  ReplaceConstant(graph, linear, 1, Scaled(node, *FloatConstant(graph, node.input(1)), factor));
  if (const Tensor* bias = FloatConstant(graph, node.input(2))) {
    Tensor scaled = bias->Clone();
    for (size_t c = 0; c < factor.size(); ++c) scaled.mutable_data<float>()[c] *= factor[c];
    ReplaceConstant(graph, linear, 2, std::move(scaled));
  }
}

void OffsetChannels(Graph& graph, NodeId linear, const std::vector<float>& offset) {
  const ValueId old = graph.node(linear).input(2);
  Tensor bias = Tensor::FromValues<float>(Shape{static_cast<int64_t>(offset.size())}, offset);
  if (const Tensor* before = FloatConstant(graph, old)) {
    for (size_t c = 0; c < offset.size(); ++c) bias.mutable_data<float>()[c] += before->data<float>()[c];
    ReplaceConstant(graph, linear, 2, std::move(bias));
  } else {
    graph.SetInput(linear, 2, graph.AddConstant(graph.node(linear).name + "_bias", std::move(bias)));
  }
}

}  // namespace evoq
