#include "passes/linear.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace evoq {

int ChannelAxis(const Graph& graph, const Node& linear) {
  const int axis = LinearFormOf(linear)->channel_axis;
  const Shape& y = graph.value(linear.outputs[0]).type.shape;
  return axis >= 0 || !y.ranked() ? std::max(axis, -1) : axis + y.rank();
}

std::optional<int64_t> OutputChannels(const Graph& graph, const Node& linear) {
  if (!linear.input(1).valid()) return std::nullopt;
  const Shape& w = graph.value(linear.input(1)).type.shape;
  if (!w.ranked() || w.rank() < 2) return std::nullopt;
  const Dim& dim = w[WeightAxis(linear, w.rank())];
  if (!dim.known() || dim.value == 0) return std::nullopt;
  return LinearFormOf(linear)->outputs_by_group ? dim.value * linear.attrs.Int("group", 1)
                                                : dim.value;
}

std::optional<std::vector<float>> PerChannel(const Graph& graph, ValueId constant, int rank,
                                             int axis, int64_t channels) {
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

std::optional<std::pair<NodeId, std::vector<float>>> SlopesBehind(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  if (!IsLinear(node) || LinearFormOf(node)->integer_form == nullptr || HasActivation(node))
    return std::nullopt;
  const NodeId next = OnlyReader(graph, id);
  const Shape& y = graph.value(node.outputs[0]).type.shape;
  if (!IsOp(graph, next, "PRelu") || graph.node(next).input(0) != node.outputs[0] || !y.ranked() ||
      node.input(4).valid())
    return std::nullopt;
  const auto channels = OutputChannels(graph, node);
  auto slopes = channels ? PerChannel(graph, graph.node(next).input(1), y.rank(),
                                      ChannelAxis(graph, node), *channels)
                         : std::nullopt;
  const auto finite = [](float slope) { return std::isfinite(slope); };
  if (!slopes || slopes->empty() || !std::ranges::all_of(*slopes, finite)) return std::nullopt;
  return std::pair(next, std::move(*slopes));
}

bool TakeSlopes(Graph& graph, NodeId id) {
  const auto behind = SlopesBehind(graph, id);
  if (!behind) return false;
  ProductActivationToAttrs({{ActivationKind::kPRelu}, behind->second}, graph.attrs(id));
  Absorb(graph, id, behind->first);
  return true;
}

bool TakesBias(const Graph& graph, const Node& linear) {
  if (!IsLinear(linear) || HasActivation(linear) || linear.attrs.Int("channels_last") != 0)
    return false;
  for (size_t i = 0; i < linear.inputs.size(); ++i) {
    const ValueId in = linear.inputs[i];
    if (in.valid() && (i == 1 ? false : graph.value(in).type.quantized())) return false;
  }
  const TensorType& y = graph.value(linear.outputs[0]).type;
  if (y.dtype != DType::kFloat32 || !OutputChannels(graph, linear)) return false;
  const ValueId bias = linear.input(2);
  if (!bias.valid()) return true;
  const Tensor* tensor = FloatConstant(graph, bias);
  return tensor != nullptr && tensor->elements() == *OutputChannels(graph, linear);
}

namespace {

// The quantized constant whose DequantizeLinear are the weights, with scales that can take a factor
// per output channel.
ValueId QuantizedWeights(const Graph& graph, const Node& linear) {
  const NodeId dequantize = ProducedBy(graph, linear.input(1), "DequantizeLinear");
  if (!dequantize.valid() || graph.node(dequantize).inputs.size() != 1) return {};
  const ValueId w = graph.node(dequantize).input(0);
  const TensorType& type = graph.value(w).type;
  if (!graph.value(w).is_constant() || !type.quantized() || type.quant->block != 0) return {};
  if (!HasOneOutputAxis(linear)) return {};
  return type.quant->per_tensor() || type.quant->axis == WeightAxis(linear, type.shape.rank())
             ? w
             : ValueId{};
}

}  // namespace

namespace {
// -q exists for every integer q of the tensor, and means the negative number.
bool HasNegatives(const Tensor& w) {
  const auto& zeros = w.type().quant->zero_points;
  if (!IsSigned(w.dtype()) ||
      std::any_of(zeros.begin(), zeros.end(), [](int32_t zero) { return zero != 0; }))
    return false;
  const auto q = ToInt64s(w);
  return q && std::find(q->begin(), q->end(), IntegerMin(w.dtype())) == q->end();
}
}  // namespace

bool TakesFactor(const Graph& graph, const Node& linear, const std::vector<float>& factor) {
  if (!TakesBias(graph, linear) || linear.input(3).valid()) return false;
  if (FloatConstant(graph, linear.input(1)) != nullptr) return true;
  const ValueId w = QuantizedWeights(graph, linear);
  if (!w.valid() ||
      !std::all_of(factor.begin(), factor.end(), [](float f) { return std::isfinite(f); }))
    return false;
  return std::all_of(factor.begin(), factor.end(), [](float f) { return f >= 0; }) ||
         HasNegatives(graph.value(w).constant);
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
  const WeightIndex index(linear, weights.sizes());
  for (int64_t i = 0; i < scaled.elements(); ++i)
    scaled.mutable_data<float>()[i] *= factor[index.OutputOf(i)];
  return scaled;
}

// Quantized weights with each output channel's scale multiplied by its factor; a negative one
// negates the integers.
Tensor ScaledIntegers(const Node& linear, const Tensor& weights, const std::vector<float>& factor) {
  const TensorType& type = weights.type();
  QuantParams quant;
  quant.axis = WeightAxis(linear, type.shape.rank());
  for (size_t c = 0; c < factor.size(); ++c) {
    const size_t i = type.quant->per_tensor() ? 0 : c;
    // A scale is never 0: what it multiplies is as good as 0 at the smallest one.
    quant.scales.push_back(
        std::max(type.quant->scales[i] * std::abs(factor[c]), std::numeric_limits<float>::min()));
    quant.zero_points.push_back(type.quant->zero_points[i]);
  }
  TensorType scaled(type.dtype, type.shape, quant);
  if (std::all_of(factor.begin(), factor.end(), [](float f) { return f >= 0; }))
    return weights.WithType(scaled);
  // As real numbers of scale 1, negated where wanted, and back: exact.
  quant.scales.assign(factor.size(), 1.0f);
  const TensorType units(type.dtype, type.shape, quant);
  auto real = ToFloat32(weights.WithType(units));
  EVOQ_CHECK(real, "{}", real.error().message());
  const int64_t size = type.shape[quant.axis].value;
  int64_t inner = 1;
  for (int i = quant.axis + 1; i < type.shape.rank(); ++i) inner *= type.shape[i].value;
  for (int64_t i = 0; i < real->elements(); ++i) {
    if (factor[i / inner % size] < 0) real->mutable_data<float>()[i] *= -1;
  }
  auto negated = QuantizeTensor(*real, units);
  EVOQ_CHECK(negated, "{}", negated.error().message());
  return negated->WithType(scaled);
}

}  // namespace

void ScaleWeights(Graph& graph, NodeId linear, const std::vector<float>& factor) {
  const Node node = graph.node(linear);
  if (const Tensor* weights = FloatConstant(graph, node.input(1))) {
    ReplaceConstant(graph, linear, 1, Scaled(node, *weights, factor));
  } else {
    const Value& w = graph.value(QuantizedWeights(graph, node));
    const ValueId scaled = graph.AddConstant(w.name, ScaledIntegers(node, w.constant, factor));
    const Value& real = graph.value(node.input(1));
    graph.SetInput(linear, 1, graph.Apply("DequantizeLinear", real.name, {scaled}, {}, real.type));
  }
}

void ScaleChannels(Graph& graph, NodeId linear, const std::vector<float>& factor) {
  ScaleWeights(graph, linear, factor);
  if (const Tensor* bias = FloatConstant(graph, graph.node(linear).input(2))) {
    Tensor scaled = bias->Clone();
    for (size_t c = 0; c < factor.size(); ++c) scaled.mutable_data<float>()[c] *= factor[c];
    ReplaceConstant(graph, linear, 2, std::move(scaled));
  }
}

void OffsetChannels(Graph& graph, NodeId linear, const std::vector<float>& offset) {
  const ValueId old = graph.node(linear).input(2);
  Tensor bias = Tensor::FromValues(offset);
  if (const Tensor* before = FloatConstant(graph, old)) {
    for (size_t c = 0; c < offset.size(); ++c)
      bias.mutable_data<float>()[c] += before->data<float>()[c];
    ReplaceConstant(graph, linear, 2, std::move(bias));
  } else {
    graph.SetInput(linear, 2,
                   graph.AddConstant(graph.node(linear).name + "_bias", std::move(bias)));
  }
}

}  // namespace evoq
