// Quantization parameters of activations that a runtime takes badly or not at all.
#include <algorithm>
#include <cmath>

#include "foreign/forecasts/qdq.h"
#include "foreign/forecasts/rule.h"
#include "passes/match.h"

namespace evoq {
namespace {

// ---- an activation behind a pair of its own

std::vector<Fault> FindApart(const PlacementCase& c) {
  return FaultsWhere(c, [&](NodeId id, const Node& node) -> std::optional<Fault> {
    if (!IsClamp(node)) return std::nullopt;
    const NodeId dequantize = ProducedBy(c.graph, node.input(0), "DequantizeLinear");
    if (!dequantize.valid() || !OnlyQuantizer(c.graph, node.outputs[0]).valid())
      return std::nullopt;
    const NodeId quantize = c.graph.value(c.graph.node(dequantize).input(0)).producer;
    if (!c.graph.alive(quantize) || !IsQuantize(c.graph.node(quantize))) return std::nullopt;
    const ValueId x = c.graph.node(quantize).input(0);
    const NodeId producer = c.graph.value(x).producer;
    if (!c.graph.alive(producer) ||
        !(IsWeighted(c.graph.node(producer)) || c.graph.node(producer).op == "Add"))
      return std::nullopt;
    const bool alone = c.graph.OnlyUser(c.graph.node(quantize).outputs[0]) == dequantize &&
                       c.graph.OnlyUser(x) == quantize && c.graph.OnlyUser(node.input(0)) == id;
    return Fault{.repairable = alone};
  });
}

Result<bool> JoinActivation(Graph& graph, const PlacementCase&, const Fault& fault) {
  const NodeId dequantize = ProducedBy(graph, graph.node(fault.node).input(0), "DequantizeLinear");
  if (!dequantize.valid()) return false;
  const NodeId quantize = graph.value(graph.node(dequantize).input(0)).producer;
  graph.SetInput(fault.node, 0, graph.node(quantize).input(0));
  return true;
}

// ---- two pairs in a row

std::vector<Fault> FindDouble(const PlacementCase& c) {
  return FaultsWhere(c, [&](NodeId, const Node& node) -> std::optional<Fault> {
    if (!IsQuantize(node)) return std::nullopt;
    const NodeId dequantize = ProducedBy(c.graph, node.input(0), "DequantizeLinear");
    if (!dequantize.valid() || c.graph.IsOutput(node.input(0))) return std::nullopt;
    const NodeId first = c.graph.value(c.graph.node(dequantize).input(0)).producer;
    return Fault{.repairable = c.graph.alive(first) && IsQuantize(c.graph.node(first))};
  });
}

Result<bool> SkipFirstPair(Graph& graph, const PlacementCase&, const Fault& fault) {
  const NodeId dequantize = ProducedBy(graph, graph.node(fault.node).input(0), "DequantizeLinear");
  const NodeId first =
      dequantize.valid() ? graph.value(graph.node(dequantize).input(0)).producer : NodeId{};
  if (!graph.alive(first) || !IsQuantize(graph.node(first))) return false;
  graph.SetInput(fault.node, 0, graph.node(first).input(0));
  return true;
}

// ---- a pair for each reader

// The first QuantizeLinear of the same value to the same type; `id` itself where it is that.
NodeId FirstAlike(const Graph& graph, NodeId id) {
  const TensorType* type = QuantTypeOf(graph, id);
  if (type == nullptr) return id;
  for (NodeId user : graph.value(graph.node(id).input(0)).users) {
    const TensorType* other = IsQuantize(graph.node(user)) ? QuantTypeOf(graph, user) : nullptr;
    if (other != nullptr && SameQuant(*type, *other)) return user;
  }
  return id;
}

std::vector<Fault> FindRepeated(const PlacementCase& c) {
  return FaultsWhere(c, [&](NodeId id, const Node& node) -> std::optional<Fault> {
    if (!IsQuantize(node) || FirstAlike(c.graph, id) == id) return std::nullopt;
    return Fault{.repairable = !c.graph.IsOutput(node.outputs[0])};
  });
}

Result<bool> UseFirst(Graph& graph, const PlacementCase&, const Fault& fault) {
  const NodeId first = FirstAlike(graph, fault.node);
  if (first == fault.node) return false;
  graph.ReplaceUses(graph.node(fault.node).outputs[0], graph.node(first).outputs[0]);
  return true;
}

// ---- a Relu or Clip that rounding could do

std::vector<Fault> FindKept(const PlacementCase& c) {
  return FaultsWhere(c, [&](NodeId id, const Node& node) -> std::optional<Fault> {
    const NodeId quantize =
        c.IsFloat(id) && IsClamp(node) ? OnlyQuantizer(c.graph, node.outputs[0]) : NodeId{};
    const TensorType* type = quantize.valid() ? QuantTypeOf(c.graph, quantize) : nullptr;
    if (type == nullptr || !type->quant->per_tensor() || !ActivationOf(c.graph, node))
      return std::nullopt;
    return Fault{.repairable = DTypeBits(type->dtype) == 8 && HighOf(*type) > 0};
  });
}

// A range that begins and ends where the clamp does, or within.
Result<bool> FitQuantType(Graph& graph, const PlacementCase&, const Fault& fault) {
  const Node& node = graph.node(fault.node);
  const NodeId quantize = OnlyQuantizer(graph, node.outputs[0]);
  const TensorType* type = quantize.valid() ? QuantTypeOf(graph, quantize) : nullptr;
  const auto activation = ActivationOf(graph, node);
  if (type == nullptr || !activation) return false;
  const bool clip = activation->kind == ActivationKind::kClip;
  const double low = clip ? std::max<double>(LowOf(*type), activation->alpha) : 0;
  const double high = clip ? std::min<double>(HighOf(*type), activation->beta) : HighOf(*type);
  if (low > 0 || high < 0 || low == high) return false;
  SetQuantType(graph, graph.node(quantize).outputs[0],
               QuantTypeFor(low, high, type->dtype, false, type->shape));
  return true;
}

// ---- signed activations on x86

bool BesideFloat(const PlacementCase& c, NodeId quantize) {
  const auto is_float = [&](NodeId id) { return c.graph.alive(id) && c.IsFloat(id); };
  if (is_float(c.graph.value(c.graph.node(quantize).input(0)).producer)) return true;
  for (NodeId dequantize : c.graph.value(c.graph.node(quantize).outputs[0]).users) {
    if (!IsDequantize(c.graph.node(dequantize))) continue;
    const auto& users = c.graph.value(c.graph.node(dequantize).outputs[0]).users;
    if (std::any_of(users.begin(), users.end(), is_float)) return true;
  }
  return false;
}

std::vector<Fault> FindSigned(const PlacementCase& c) {
  bool matters = false;
  std::vector<Fault> faults =
      FaultsWhere(c, [&](NodeId id, const Node& node) -> std::optional<Fault> {
        const TensorType* type = IsQuantize(node) ? QuantTypeOf(c.graph, id) : nullptr;
        if (type == nullptr || type->dtype != DType::kInt8 || !type->quant->per_tensor())
          return std::nullopt;
        matters = matters || BesideFloat(c, id);
        return Fault{.repairable = !c.graph.IsOutput(node.outputs[0])};
      });
  return matters ? faults : std::vector<Fault>();
}

Result<bool> MakeUnsigned(Graph& graph, const PlacementCase&, const Fault& fault) {
  const TensorType* type = QuantTypeOf(graph, fault.node);
  if (type == nullptr || type->dtype != DType::kInt8) return false;
  SetQuantType(graph, graph.node(fault.node).outputs[0], AsUint8(*type));
  return true;
}

// ---- zero points where there may be none

// Also where another rule names the node: TensorRT refuses the file.
std::vector<Fault> FindAsymmetric(const PlacementCase& c) {
  std::vector<Fault> faults;
  for (NodeId id : c.graph.order()) {
    if (!IsQuantize(c.graph.node(id))) continue;
    const TensorType* type = QuantTypeOf(c.graph, id);
    if (type == nullptr || (type->dtype == DType::kInt8 && type->quant->per_tensor() &&
                            type->quant->zero_points[0] == 0))
      continue;
    faults.push_back({.node = id,
                      .detail = type->ToString(),
                      .repairable = type->quant->per_tensor() && DTypeBits(type->dtype) == 8 &&
                                    !c.graph.IsOutput(c.graph.node(id).outputs[0])});
  }
  return faults;
}

Result<bool> MakeSymmetric(Graph& graph, const PlacementCase&, const Fault& fault) {
  const TensorType* type = QuantTypeOf(graph, fault.node);
  if (type == nullptr || !type->quant->per_tensor()) return false;
  SetQuantType(graph, graph.node(fault.node).outputs[0],
               QuantTypeFor(LowOf(*type), HighOf(*type), DType::kInt8, true, type->shape));
  return true;
}

}  // namespace

extern const PlacementRule kPlaceActivationApart = {
    .code = "activation-apart",
    .runtimes = "ort-cpu tensorrt openvino",
    .sentence =
        "Q/DQ stand between an operator and its Relu or Clip, which then computes on its own.",
    .fix =
        "One pair, behind the activation: the operator rounds once and the activation costs "
        "nothing.",
    .source =
        "ONNX Runtime 1.31 IsClipMadeRedundantByQ; TensorRT 10 Explicit Quantization, fusion with "
        "activations",
    .find = FindApart,
    .repair = JoinActivation,
};

extern const PlacementRule kPlaceDoublePair = {
    .code = "double-pair",
    .runtimes = "tensorrt openvino",
    .sentence =
        "A dequantized value is quantized again at once, with other numbers: a requantization that "
        "nothing needs.",
    .fix = "The second pair alone.",
    .source =
        "TensorRT 10 Explicit Quantization; ONNX Runtime 1.31 removes them itself "
        "(DoubleQDQPairsRemover)",
    .find = FindDouble,
    .repair = SkipFirstPair,
};

extern const PlacementRule kPlacePairRepeated = {
    .code = "pair-repeated",
    .runtimes = "ort-cpu",
    .sentence =
        "A value has a QuantizeLinear for each of its readers (DedicatedQDQPair): its operator "
        "writes float and runs in float, unless the session can merge them.",
    .fix = "One QuantizeLinear for all of them.",
    .source =
        "ONNX Runtime 1.32: common subexpressions are merged where their scales are one "
        "initializer; NodeGroupSelector::CheckQDQNodes",
    .find = FindRepeated,
    .repair = UseFirst,
};

extern const PlacementRule kPlaceReluKept = {
    .code = "relu-kept",
    .runtimes = "ort-cpu",
    .sentence =
        "The scale behind a Relu or Clip reaches beyond its bounds, so that it cannot become part "
        "of the rounding and the operator before it runs in float.",
    .fix =
        "A scale that begins at the activation's lower bound (zero point at the type's minimum): "
        "it is finer, too.",
    .source = "ONNX Runtime 1.31 IsClipMadeRedundantByQ, ReluQuantFusion",
    .find = FindKept,
    .repair = FitQuantType,
};

extern const PlacementRule kPlaceSignedActivations = {
    .code = "signed-activations",
    .runtimes = "ort-cpu",
    .sentence =
        "Activations are int8: there is no fast int8 x int8 kernel on x86, and what the session "
        "cannot turn into uint8 by itself runs in float.",
    .fix = "uint8 with zero point + 128: the same numbers.",
    .source = "ONNX Runtime 1.31 QDQS8ToU8Transformer, ConvSelector with int8_allowed = false",
    .find = FindSigned,
    .repair = MakeUnsigned,
};

extern const PlacementRule kPlaceAsymmetricActivations = {
    .code = "asymmetric-activations",
    .runtimes = "tensorrt",
    .sentence = "Activations have a zero point or are unsigned: TensorRT refuses the file.",
    .fix = "int8 with zero point 0 and the scale of the larger side.",
    .source = "NVIDIA/TensorRT#2774; TensorRT 10 Working with Quantized Types (symmetric only)",
    .find = FindAsymmetric,
    .repair = MakeSymmetric,
};

}  // namespace evoq
