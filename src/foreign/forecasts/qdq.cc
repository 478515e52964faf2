#include "foreign/forecasts/qdq.h"

#include <algorithm>
#include <cmath>

#include "kernels/activation.h"
#include "passes/match.h"
#include "quant/params.h"

namespace evoq {

bool IsClamp(const Node& node) {
  const auto kind = node.domain.empty() ? ActivationFromName(node.op) : std::nullopt;
  return kind && (*kind == ActivationKind::kRelu || *kind == ActivationKind::kClip);
}

bool IsAverage(const Node& node) {
  return node.domain.empty() &&
         (node.op == "AveragePool" || node.op == "GlobalAveragePool" || node.op == "ReduceMean");
}

const TensorType* QuantTypeOf(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  const ValueId stored = IsQuantize(node) ? node.outputs[0] : node.input(0);
  return stored.valid() && graph.value(stored).type.quantized() ? &graph.value(stored).type
                                                                : nullptr;
}

namespace {

NodeId DequantizerOf(const Graph& graph, ValueId real) {
  if (!real.valid()) return {};
  const NodeId id = graph.value(real).producer;
  return graph.alive(id) && IsDequantize(graph.node(id)) ? id : NodeId{};
}

}  // namespace

const TensorType* ReadQuantType(const Graph& graph, ValueId real) {
  const NodeId id = DequantizerOf(graph, real);
  return id.valid() ? QuantTypeOf(graph, id) : nullptr;
}

NodeId OnlyQuantizer(const Graph& graph, ValueId real) {
  if (!real.valid()) return {};
  const NodeId id = graph.OnlyUser(real);
  return graph.alive(id) && IsQuantize(graph.node(id)) ? id : NodeId{};
}

namespace {

const TensorType* TypeOfAllReaders(const Graph& graph, ValueId real) {
  const TensorType* type = nullptr;
  if (graph.IsOutput(real)) return nullptr;
  for (NodeId user : graph.value(real).users) {
    const TensorType* own = IsQuantize(graph.node(user)) ? QuantTypeOf(graph, user) : nullptr;
    if (own == nullptr || (type != nullptr && !SameQuant(*type, *own))) return nullptr;
    type = own;
  }
  return type;
}

}  // namespace

const TensorType* WrittenQuantType(const Graph& graph, ValueId real) {
  if (!real.valid()) return nullptr;
  if (const TensorType* type = TypeOfAllReaders(graph, real)) return type;
  const NodeId clamp = graph.OnlyUser(real);
  if (!graph.alive(clamp) || !IsClamp(graph.node(clamp))) return nullptr;
  return TypeOfAllReaders(graph, graph.node(clamp).outputs[0]);
}

const TensorType* ReaderQuantType(const Graph& graph, ValueId real) {
  if (!real.valid()) return nullptr;
  for (NodeId user : graph.value(real).users) {
    const TensorType* type = IsQuantize(graph.node(user)) ? QuantTypeOf(graph, user) : nullptr;
    if (type != nullptr && type->quant->per_tensor()) return type;
  }
  return nullptr;
}

const TensorType* WeightQuantType(const Graph& graph, const Node& node) {
  if (!node.input(1).valid() || !IsConstantLike(graph, node.input(1))) return nullptr;
  const TensorType* type = ReadQuantType(graph, node.input(1));
  return type != nullptr && type->quant->block == 0 ? type : nullptr;
}

bool IsConstantLike(const Graph& graph, ValueId value) {
  if (graph.value(value).is_constant()) return true;
  const NodeId id = DequantizerOf(graph, value);
  return id.valid() && graph.value(graph.node(id).input(0)).is_constant();
}

bool IsActivation(const Graph& graph, ValueId value) {
  if (!value.valid()) return false;
  const TensorType& type = graph.value(value).type;
  return type.dtype == DType::kFloat32 && !type.quantized() && type.is_tensor() &&
         !IsConstantLike(graph, value);
}

double LowOf(const TensorType& type) {
  return static_cast<double>(IntegerMin(type.dtype) - type.quant->zero_points[0]) *
         static_cast<double>(type.quant->scales[0]);
}
double HighOf(const TensorType& type) {
  return static_cast<double>(IntegerMax(type.dtype) - type.quant->zero_points[0]) *
         static_cast<double>(type.quant->scales[0]);
}

TensorType QuantTypeFor(double low, double high, DType dtype, bool symmetric, const Shape& shape) {
  const Range range{.min = static_cast<float>(low), .max = static_cast<float>(high)};
  return TensorType(dtype, shape, ActivationParams(range, dtype, symmetric));
}

TensorType AsUint8(const TensorType& type) {
  return TensorType(
      DType::kUint8, type.shape,
      QuantParams::PerTensor(type.quant->scales[0], type.quant->zero_points[0] + 128));
}

ValueId AddPair(Graph& graph, ValueId real, const TensorType& quant_type) {
  TensorType type = quant_type;
  type.shape = graph.value(real).type.shape;
  const std::string name = graph.value(real).name;
  ValueId stored;
  for (NodeId user : graph.value(real).users) {
    const TensorType* known = IsQuantize(graph.node(user)) ? QuantTypeOf(graph, user) : nullptr;
    if (known != nullptr && SameQuant(*known, type)) stored = graph.node(user).outputs[0];
  }
  if (!stored.valid()) stored = graph.Apply("QuantizeLinear", name + "_quantize", {real}, {}, type);
  for (NodeId user : graph.value(stored).users) {
    if (IsDequantize(graph.node(user))) return graph.node(user).outputs[0];
  }
  return graph.Apply("DequantizeLinear", name + "_dequantize", {stored}, {},
                     TensorType(DType::kFloat32, type.shape));
}

void MoveReaders(Graph& graph, ValueId real, ValueId to, bool outputs) {
  const std::vector<NodeId> users = graph.value(real).users;
  if (outputs && graph.IsOutput(real)) {
    for (size_t i = 0; i < graph.outputs().size(); ++i) {
      if (graph.outputs()[i] == real) graph.ReplaceOutput(i, to);
    }
  }
  for (NodeId user : users) {
    if (!IsQuantize(graph.node(user))) graph.ReplaceUsesIn(user, real, to);
  }
}

bool BypassPair(Graph& graph, NodeId dequantize) {
  const ValueId real = graph.node(dequantize).outputs[0];
  const NodeId quantize = graph.value(graph.node(dequantize).input(0)).producer;
  if (!graph.alive(quantize) || !IsQuantize(graph.node(quantize))) return false;
  const ValueId x = graph.node(quantize).input(0);
  if (graph.IsOutput(real) &&
      (graph.IsInput(x) || graph.IsOutput(x) || graph.value(x).is_constant()))
    return false;
  graph.ReplaceUses(real, x);
  return true;
}

namespace {

bool HasStoredBias(const Graph& graph, const Node& node) {
  if (!node.input(2).valid()) return false;
  const TensorType* bias = ReadQuantType(graph, node.input(2));
  return bias != nullptr && bias->dtype == DType::kInt32 && IsConstantLike(graph, node.input(2));
}

}  // namespace

void SetQuantType(Graph& graph, ValueId stored, const TensorType& quant_type) {
  TensorType type = quant_type;
  type.shape = graph.value(stored).type.shape;
  graph.SetType(stored, type);
  for (NodeId dequantize : std::vector<NodeId>(graph.value(stored).users)) {
    if (!IsDequantize(graph.node(dequantize))) continue;
    const ValueId real = graph.node(dequantize).outputs[0];
    for (NodeId user : std::vector<NodeId>(graph.value(real).users)) {
      const Node& node = graph.node(user);
      if (IsWeighted(node) && node.input(0) == real && HasStoredBias(graph, node))
        QuantizeBiasOf(graph, user);
    }
  }
}

Tensor RealConstant(const Graph& graph, ValueId value) {
  if (!value.valid() || !IsConstantLike(graph, value)) return {};
  const NodeId id = DequantizerOf(graph, value);
  const Tensor& constant = graph.value(id.valid() ? graph.node(id).input(0) : value).constant;
  if (id.valid() && !constant.type().quantized()) return {};
  const auto real = ToFloat32(constant);
  return real ? *real : Tensor();
}

bool FoldDequantized(Graph& graph, NodeId id, size_t i) {
  const ValueId value = graph.node(id).input(i);
  if (!value.valid() || graph.value(value).is_constant()) return false;
  const Tensor real = RealConstant(graph, value);
  if (!real.defined()) return false;
  graph.SetInput(id, i, graph.AddConstant(graph.value(value).name + "_real", real));
  return true;
}

void ReplaceDequantized(Graph& graph, NodeId id, size_t i, Tensor tensor) {
  const std::string name = graph.value(graph.node(id).input(i)).name;
  const Shape shape = tensor.shape();
  const ValueId stored = graph.AddConstant(name + "_stored", std::move(tensor));
  graph.SetInput(id, i,
                 graph.Apply("DequantizeLinear", name + "_dequantize", {stored}, {},
                             TensorType(DType::kFloat32, shape)));
}

void FoldQuantizedConstants(Graph& graph) {
  for (NodeId id : NodesOf(graph)) {
    const Node& node = graph.node(id);
    if (!IsQuantize(node)) continue;
    const Value &x = graph.value(node.input(0)), &y = graph.value(node.outputs[0]);
    if (!x.is_constant() || !y.type.quantized() || graph.IsOutput(node.outputs[0])) continue;
    Result<Tensor> stored = QuantizeTensor(x.constant, y.type);
    if (!stored) continue;
    const ValueId old = node.outputs[0];
    graph.ReplaceUses(old, graph.AddConstant(y.name + "_stored", std::move(*stored)));
    graph.RemoveNode(id);
  }
}

bool IsBiasQuantType(const TensorType& bias, const TensorType& x, const TensorType& w) {
  if (bias.dtype != DType::kInt32 || !x.quant->per_tensor() || w.quant->block != 0) return false;
  const auto &b = bias.quant->scales, &s = w.quant->scales;
  const size_t count = std::max(b.size(), s.size());
  if ((b.size() != count && b.size() != 1) || (s.size() != count && s.size() != 1)) return false;
  for (size_t c = 0; c < count; ++c) {
    const double wanted =
        static_cast<double>(x.quant->scales[0]) * static_cast<double>(s[s.size() == 1 ? 0 : c]);
    constexpr double kTolerance = 0.01;  // ONNX Runtime 1.31 takes a ratio of 1.01 and refuses 1.02
    if (std::abs(static_cast<double>(b[b.size() == 1 ? 0 : c]) - wanted) > kTolerance * wanted)
      return false;
  }
  return true;
}

bool QuantizeBiasOf(Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  const TensorType* x = ReadQuantType(graph, node.input(0));
  const TensorType* w = WeightQuantType(graph, node);
  const Tensor bias = RealConstant(graph, node.input(2));
  if (x == nullptr || !x->quant->per_tensor() || w == nullptr || !bias.defined() ||
      bias.shape().rank() != 1)
    return false;
  const size_t channels = static_cast<size_t>(bias.elements());
  if (w->quant->scales.size() != 1 && w->quant->scales.size() != channels) return false;
  Tensor stored = QuantizeBias(bias, x->quant->scales[0], *w->quant);
  QuantParams params;
  for (float s : w->quant->scales)
    params.scales.push_back(
        static_cast<float>(static_cast<double>(x->quant->scales[0]) * static_cast<double>(s)));
  params.zero_points.assign(params.scales.size(), 0);
  if (params.scales.size() > 1) params.axis = 0;
  ReplaceDequantized(graph, id, 2,
                     stored.WithType(TensorType(DType::kInt32, stored.shape(), std::move(params))));
  return true;
}

}  // namespace evoq
