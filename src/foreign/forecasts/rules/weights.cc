// Weights and biases: their integers, their axis, and what stands between them and the operator.
#include <algorithm>
#include <cmath>

#include "foreign/forecasts/qdq.h"
#include "foreign/forecasts/rule.h"
#include "passes/linear.h"
#include "quant/params.h"

namespace evoq {
namespace {

const TensorType* ByteWeights(const Graph& graph, const Node& node) {
  const TensorType* type = IsWeighted(node) ? WeightQuantType(graph, node) : nullptr;
  return type != nullptr && DTypeBits(type->dtype) == 8 ? type : nullptr;
}

std::vector<Fault> FindWeighted(const PlacementCase& c,
                                bool (*faulty)(const PlacementCase&, NodeId)) {
  return FaultsWhere(c, [&](NodeId id, const Node& node) -> std::optional<Fault> {
    if (!IsWeighted(node) || !faulty(c, id)) return std::nullopt;
    return Fault{};
  });
}

// ---- integers

bool IsUnsigned(const PlacementCase& c, NodeId id) {
  const TensorType* w = ByteWeights(c.graph, c.graph.node(id));
  if (w == nullptr) return false;
  const auto& zeros = w->quant->zero_points;
  return w->dtype == DType::kUint8 ||
         std::any_of(zeros.begin(), zeros.end(), [](int32_t zero) { return zero != 0; });
}

bool IsOnOtherAxis(const PlacementCase& c, NodeId id) {
  const TensorType* w = ByteWeights(c.graph, c.graph.node(id));
  return w != nullptr && !w->quant->per_tensor() &&
         w->quant->axis != WeightAxis(c.graph.node(id), w->shape.rank());
}

// int8 with the same numbers, where q - zero fits; nothing otherwise.
std::optional<Tensor> Shifted(const Tensor& w) {
  const QuantParams& quant = *w.type().quant;
  if (std::any_of(quant.zero_points.begin(), quant.zero_points.end(),
                  [&](int32_t zero) { return zero != quant.zero_points[0]; }))
    return std::nullopt;
  const auto q = ToInt64s(w.WithType(TensorType(w.dtype(), w.shape())));
  if (!q) return std::nullopt;
  QuantParams params = quant;
  params.zero_points.assign(quant.scales.size(), 0);
  Tensor shifted = Tensor::Allocate(TensorType(DType::kInt8, w.shape(), std::move(params)));
  for (size_t i = 0; i < q->size(); ++i) {
    const int64_t value = (*q)[i] - quant.zero_points[0];
    if (value < -128 || value > 127) return std::nullopt;
    shifted.mutable_data<int8_t>()[i] = static_cast<int8_t>(value);
  }
  return shifted;
}

Result<bool> MakeSymmetric(Graph& graph, const PlacementCase&, const Fault& fault) {
  const Node& node = graph.node(fault.node);
  const TensorType* type = ByteWeights(graph, node);
  if (type == nullptr) return false;
  const NodeId dequantize = graph.value(node.input(1)).producer;
  const int axis = WeightAxis(node, type->shape.rank());
  auto shifted = type->quant->per_tensor() || type->quant->axis == axis
                     ? Shifted(graph.value(graph.node(dequantize).input(0)).constant)
                     : std::nullopt;
  const bool had_bias = node.input(2).valid() && ReadQuantType(graph, node.input(2)) != nullptr;
  if (!shifted) {
    const TensorType* x = ReadQuantType(graph, node.input(0));
    const Tensor bias = had_bias ? RealConstant(graph, node.input(2)) : Tensor();
    const bool bounded = x != nullptr && bias.defined() && HasOneOutputAxis(node);
    const std::vector<float> least =
        bounded ? LeastWeightScales(bias, x->quant->scales[0]) : std::vector<float>();
    shifted = QuantizeWeight(RealConstant(graph, node.input(1)), axis, least);
  }
  ReplaceDequantized(graph, fault.node, 1, std::move(*shifted));
  if (had_bias) QuantizeBiasOf(graph, fault.node);
  return true;
}

std::vector<Fault> FindUnsigned(const PlacementCase& c) { return FindWeighted(c, IsUnsigned); }
std::vector<Fault> FindAxis(const PlacementCase& c) { return FindWeighted(c, IsOnOtherAxis); }

// ---- biases

bool HasOddBias(const PlacementCase& c, NodeId id) {
  const Node& node = c.graph.node(id);
  if (!node.input(2).valid() || ByteWeights(c.graph, node) == nullptr || !c.IsFloat(id))
    return false;
  const TensorType *x = ReadQuantType(c.graph, node.input(0)),
                   *bias = ReadQuantType(c.graph, node.input(2));
  return x != nullptr && IsConstantLike(c.graph, node.input(2)) && bias != nullptr &&
         !IsBiasQuantType(*bias, *x, *ByteWeights(c.graph, node));
}
std::vector<Fault> FindOddBias(const PlacementCase& c) { return FindWeighted(c, HasOddBias); }
Result<bool> MakeInt32(Graph& graph, const PlacementCase&, const Fault& fault) {
  return QuantizeBiasOf(graph, fault.node);
}

bool HasStoredBias(const PlacementCase& c, NodeId id) {
  const Node& node = c.graph.node(id);
  return node.input(2).valid() && IsConstantLike(c.graph, node.input(2)) &&
         ReadQuantType(c.graph, node.input(2)) != nullptr;
}
std::vector<Fault> FindStoredBias(const PlacementCase& c) { return FindWeighted(c, HasStoredBias); }
Result<bool> FoldBias(Graph& graph, const PlacementCase&, const Fault& fault) {
  return FoldDequantized(graph, fault.node, 2);
}

// ---- batch normalization

struct Normalization {
  std::vector<float> factor, offset;
};

std::optional<Normalization> NormalizationOf(const Graph& graph, const Node& node) {
  const Tensor* params[4];
  for (size_t i = 0; i < 4; ++i) {
    params[i] = FloatConstant(graph, node.input(i + 1));
    if (params[i] == nullptr || params[i]->elements() != params[0]->elements()) return std::nullopt;
  }
  Normalization norm;
  const double epsilon = node.attrs.Float("epsilon", 1e-5f);
  for (int64_t c = 0; c < params[0]->elements(); ++c) {
    const auto at = [&](int i) {
      return static_cast<double>(params[i]->values<float>()[c]);
    };  // scale, B, mean, var
    const double factor = at(0) / std::sqrt(at(3) + epsilon);
    if (!std::isfinite(factor)) return std::nullopt;
    norm.factor.push_back(static_cast<float>(factor));
    norm.offset.push_back(static_cast<float>(at(1) - at(2) * factor));
  }
  return norm;
}

std::vector<Fault> FindBatchNorm(const PlacementCase& c) {
  return FaultsWhere(c, [&](NodeId id, const Node& node) -> std::optional<Fault> {
    if (node.op != "BatchNormalization" || !node.domain.empty()) return std::nullopt;
    const NodeId linear = c.graph.value(node.input(0)).producer;
    if (!c.graph.alive(linear) || !IsLinear(c.graph.node(linear)) ||
        ByteWeights(c.graph, c.graph.node(linear)) == nullptr)
      return std::nullopt;
    return Fault{.repairable = c.graph.OnlyUser(node.input(0)) == id &&
                               NormalizationOf(c.graph, node).has_value()};
  });
}

Result<bool> FoldBatchNorm(Graph& graph, const PlacementCase&, const Fault& fault) {
  const auto norm = NormalizationOf(graph, graph.node(fault.node));
  const NodeId linear = graph.value(graph.node(fault.node).input(0)).producer;
  if (!norm || !graph.alive(linear)) return false;
  FoldDequantized(graph, linear, 2);
  if (!TakesFactor(graph, graph.node(linear), norm->factor)) return false;
  ScaleChannels(graph, linear, norm->factor);
  OffsetChannels(graph, linear, norm->offset);
  Absorb(graph, linear, fault.node);
  return true;
}

// ---- weights that gain nothing

bool IsWeightOnly(const PlacementCase& c, NodeId id) {
  const Node& node = c.graph.node(id);
  if (!c.IsFloat(id) || !node.input(1).valid() || !IsConstantLike(c.graph, node.input(1)))
    return false;
  return ReadQuantType(c.graph, node.input(1)) != nullptr &&
         RealConstant(c.graph, node.input(1)).defined();
}
std::vector<Fault> FindWeightOnly(const PlacementCase& c) { return FindWeighted(c, IsWeightOnly); }
Result<bool> FoldWeights(Graph& graph, const PlacementCase&, const Fault& fault) {
  FoldDequantized(graph, fault.node, 2);
  return FoldDequantized(graph, fault.node, 1);
}

}  // namespace

extern const PlacementRule kPlaceUnsignedWeights = {
    .code = "unsigned-weights",
    .runtimes = "ort-cpu tensorrt openvino",
    .sentence =
        "Weights are uint8 or have a zero point: slower kernels in ONNX Runtime, bf16 or float "
        "convolutions in OpenVINO, refused by TensorRT.",
    .fix = "int8 weights with zero point 0, per output channel.",
    .source =
        "ONNX Runtime 1.31 (MLAS u8u8 takes 2 to 3 times as long as u8s8 on x86 with VNNI); "
        "executed graphs of OpenVINO 2026.4; NVIDIA/TensorRT#2774",
    .find = FindUnsigned,
    .repair = MakeSymmetric,
};

extern const PlacementRule kPlaceWeightAxis = {
    .code = "weight-axis",
    .runtimes = "ort-cpu tensorrt openvino",
    .sentence = "Weights have a scale per index of an axis that does not number output channels.",
    .fix =
        "Scales per output channel: axis 0 of Conv, 1 of ConvTranspose, the columns of MatMul and "
        "Gemm.",
    .source =
        "ONNX Runtime 1.31 QLinearConv, QLinearMatMul; TensorRT 10 Working with Quantized Types, "
        "per-channel",
    .find = FindAxis,
    .repair = MakeSymmetric,
};

extern const PlacementRule kPlaceBiasNotInt32 = {
    .code = "bias-not-int32",
    .runtimes = "ort-cpu",
    .sentence =
        "The bias is quantized to another type than int32, or with another scale than s_x * s_w, "
        "so the whole operator runs in float.",
    .fix =
        "int32 at scale s_x * s_w, or float: since 1.21 ONNX Runtime quantizes a float bias "
        "itself.",
    .source =
        "ONNX Runtime 1.31.1 ConvSelector, GemmSelector, WeightBiasQuantization; tried: a bias "
        "scale 1% off is taken, 2% is not",
    .find = FindOddBias,
    .repair = MakeInt32,
};

extern const PlacementRule kPlaceBiasQuantized = {
    .code = "bias-quantized",
    .runtimes = "tensorrt ort-cuda",
    .sentence =
        "The bias stands behind a DequantizeLinear of int32, for which there is no kernel: "
        "TensorRT refuses it, CUDA copies it from the host at every inference.",
    .fix = "A float bias.",
    .source =
        "microsoft/onnxruntime#14229 (TensorRT: only activation types); ONNX Runtime "
        "docs/OperatorKernels.md, DequantizeLinear on CUDA",
    .find = FindStoredBias,
    .repair = FoldBias,
};

extern const PlacementRule kPlaceBatchNormApart = {
    .code = "batch-norm-apart",
    .runtimes = "ort-cpu ort-cuda tensorrt openvino",
    .sentence =
        "A BatchNormalization stands between a quantized operator and the QuantizeLinear: both run "
        "in float.",
    .fix = "Fold it into the weights (evoq does, into their scales) and the bias.",
    .source =
        "ONNX Runtime 1.31 ConvBNFusion takes float weights only; TensorRT 10 Explicit "
        "Quantization, placement",
    .find = FindBatchNorm,
    .repair = FoldBatchNorm,
};

extern const PlacementRule kPlaceWeightsDequantizedEachRun = {
    .code = "weights-dequantized-each-run",
    .runtimes = "ort-cpu ort-cuda",
    .sentence =
        "Weights are stored as integers but the operator computes in float: they are dequantized "
        "at every inference and block the fast float layout.",
    .fix =
        "Quantize the activations too (evoq quantize --target ort); where they must stay float, "
        "keep float weights.",
    .source =
        "ONNX Runtime 1.31 ConstantFolding leaves DequantizeLinear; ResNet-50 1.4 times slower "
        "than float",
    .find = FindWeightOnly,
    .repair = FoldWeights,
};

}  // namespace evoq
