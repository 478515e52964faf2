// Operators for which the runtime has no integer kernel, or no kernel at all.
#include <algorithm>

#include "foreign/forecasts/qdq.h"
#include "foreign/forecasts/rule.h"
#include "passes/match.h"

namespace evoq {
namespace {

// ---- QLinearConv and the like, as the file has them

std::vector<Fault> FindQlinear(const PlacementCase& c) {
  return FaultsWhere(c, [&](NodeId id, const Node& node) -> std::optional<Fault> {
    const std::string name = QlinearName(node);
    if (name.empty() || (!c.IsFor("ort-cuda") && c.fates.at(id) != Fate::kRefused))
      return std::nullopt;
    return Fault{.detail = name};
  });
}

// The importer has made Q/DQ of them already: what is written no longer has them.
Result<bool> ForgetQlinear(Graph& graph, const PlacementCase&, const Fault& fault) {
  graph.attrs(fault.node).Erase("evoq.from");
  return true;
}

// ---- dynamic quantization

// ConvInteger or MatMulInteger of a DynamicQuantizeLinear and constant weights, with the product
// that gives real numbers.
struct Dynamic {
  ValueId x;
  Tensor weights;  // float32
  NodeId scaled;   // the Mul behind the Cast
};

std::optional<std::vector<float>> Scales(const Graph& graph, ValueId value) {
  const Tensor* tensor = FloatConstant(graph, value);
  if (tensor == nullptr) return std::nullopt;
  const auto values = tensor->values<float>();
  return std::vector<float>(values.begin(), values.end());
}

std::optional<Dynamic> DynamicOf(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  const NodeId quantize = ProducedBy(graph, node.input(0), "DynamicQuantizeLinear");
  const Tensor* w = graph.ConstantInput(node, 1);
  const NodeId cast = OnlyReader(graph, id);
  if (!quantize.valid() || graph.node(quantize).outputs[0] != node.input(0) || w == nullptr ||
      DTypeBits(w->dtype()) != 8 || !IsOp(graph, cast, "Cast"))
    return std::nullopt;
  const NodeId mul = OnlyReader(graph, cast);
  if (!IsOp(graph, mul, "Mul")) return std::nullopt;
  const size_t own = graph.node(mul).input(0) == graph.node(cast).outputs[0] ? 0 : 1;
  const NodeId product = ProducedBy(graph, graph.node(mul).input(1 - own), "Mul");
  if (!product.valid()) return std::nullopt;
  std::optional<std::vector<float>> scales;
  for (size_t i : {0, 1}) {
    if (graph.node(product).input(i) == graph.node(quantize).outputs[1])
      scales = Scales(graph, graph.node(product).input(1 - i));
  }
  if (!scales) return std::nullopt;
  QuantParams params{.scales = *scales,
                     .zero_points = std::vector<int32_t>(scales->size(), 0),
                     .axis = -1,
                     .block = 0};
  if (scales->size() > 1) params.axis = WeightAxis(node, w->shape().rank());
  if (node.input(3).valid()) {
    const auto zeros = IntsOf(graph, node.input(3));
    if (!zeros || (zeros->size() != 1 && zeros->size() != scales->size())) return std::nullopt;
    for (size_t i = 0; i < scales->size(); ++i)
      params.zero_points[i] = static_cast<int32_t>((*zeros)[zeros->size() == 1 ? 0 : i]);
  }
  const TensorType type(w->dtype(), w->shape(), std::move(params));
  if (!ValidateQuant(type)) return std::nullopt;
  const auto real = ToFloat32(w->WithType(type));
  if (!real) return std::nullopt;
  return Dynamic{graph.node(quantize).input(0), *real, mul};
}

std::vector<Fault> FindDynamic(const PlacementCase& c) {
  return FaultsWhere(c, [&](NodeId id, const Node&) -> std::optional<Fault> {
    // ONNX Runtime's CPU provider gains from integer matrix products.
    if (!IsOp(c.graph, id, "ConvInteger") &&
        (!IsOp(c.graph, id, "MatMulInteger") || c.IsFor("ort-cpu")))
      return std::nullopt;
    return Fault{.repairable = DynamicOf(c.graph, id).has_value()};
  });
}

Result<bool> MakeFloat(Graph& graph, const PlacementCase&, const Fault& fault) {
  const auto dynamic = DynamicOf(graph, fault.node);
  if (!dynamic) return false;
  const Node node = graph.node(fault.node);
  const ValueId w = graph.AddConstant(graph.value(node.input(1)).name + "_real", dynamic->weights);
  graph.RenameNode(fault.node, node.name + "_integer");
  const NodeId real = ReplaceNode(graph, dynamic->scaled, LinearFormOf(node)->real_form, "",
                                  {dynamic->x, w}, node.attrs);
  graph.RenameNode(real, node.name);
  return true;
}

// ---- no integer form

bool ReadsQuantized(const PlacementCase& c, const Node& node) {
  return std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId v) {
    return IsActivation(c.graph, v) && ReadQuantType(c.graph, v) != nullptr;
  });
}

std::vector<Fault> FindNoKernel(const PlacementCase& c) {
  return FaultsWhere(c, [&](NodeId id, const Node& node) -> std::optional<Fault> {
    if (!c.IsFloat(id) || node.outputs.empty()) return std::nullopt;
    const bool between =
        ReadsQuantized(c, node) &&
        (WrittenQuantType(c.graph, node.outputs[0]) != nullptr || IsWeighted(node));
    if (!between) return std::nullopt;
    return Fault{.detail = node.op, .repairable = false};
  });
}

// ---- pairs that serve nobody

// A QuantizeLinear whose integers no operator uses: both it and its DequantizeLinear nodes run.
std::vector<Fault> FindUseless(const PlacementCase& c) {
  const auto useless = [&](NodeId reader) {
    if (!IsDequantize(c.graph.node(reader))) return false;
    const auto& users = c.graph.value(c.graph.node(reader).outputs[0]).users;
    return std::none_of(users.begin(), users.end(), [&](NodeId user) {
      return OnIntegers(c.fates.at(user)) || IsQuantize(c.graph.node(user));
    });
  };
  return FaultsWhere(c, [&](NodeId, const Node& node) -> std::optional<Fault> {
    if (!IsQuantize(node)) return std::nullopt;
    const ValueId stored = node.outputs[0];
    const NodeId producer = c.graph.value(node.input(0)).producer;
    if (c.graph.IsOutput(stored) || (c.graph.alive(producer) && OnIntegers(c.fates.at(producer))))
      return std::nullopt;
    const auto& readers = c.graph.value(stored).users;
    if (readers.empty() || !std::all_of(readers.begin(), readers.end(), useless))
      return std::nullopt;
    return Fault{};
  });
}

Result<bool> RemovePair(Graph& graph, const PlacementCase&, const Fault& fault) {
  bool changed = false;
  for (NodeId reader : std::vector<NodeId>(graph.value(graph.node(fault.node).outputs[0]).users))
    changed |= BypassPair(graph, reader);
  return changed;
}

// ---- operators without a CUDA kernel

std::vector<Fault> FindHost(const PlacementCase& c) {
  return FaultsWhere(c, [&](NodeId id, const Node& node) -> std::optional<Fault> {
    if (c.fates.at(id) != Fate::kHost || IsDequantize(node))
      return std::nullopt;  // of biases: bias-quantized
    int copies = 0;
    for (const HostCopy& copy : c.fates.copies) {
      const bool reads = copy.to_host && std::find(node.inputs.begin(), node.inputs.end(),
                                                   copy.value) != node.inputs.end();
      const bool writes = !copy.to_host && std::find(node.outputs.begin(), node.outputs.end(),
                                                     copy.value) != node.outputs.end();
      copies += reads || writes;
    }
    return Fault{.detail = fmt::format("{}, {} Memcpy", node.op, copies), .repairable = false};
  });
}

}  // namespace

extern const PlacementRule kPlaceQlinearOperators = {
    .code = "qlinear-operators",
    .runtimes = "ort-cuda tensorrt openvino",
    .sentence =
        "Integer operators written as such (QLinearConv, ...): CUDA has no kernel for them, so "
        "they run on the CPU; TensorRT does not read them, OpenVINO only some of them, with "
        "scales per tensor.",
    .fix = "Q/DQ nodes around float operators say the same.",
    .source =
        "microsoft/onnxruntime#24807; ONNX Runtime docs/OperatorKernels.md; onnx-tensorrt 10 "
        "docs/operators.md; OpenVINO 2026.4 read_model",
    .find = FindQlinear,
    .repair = ForgetQlinear,
};

extern const PlacementRule kPlaceDynamicQuantization = {
    .code = "dynamic-quantization",
    .runtimes = "ort-cpu ort-cuda tensorrt openvino",
    .sentence =
        "ConvInteger (and, but for ONNX Runtime's CPU provider, MatMulInteger) on ranges measured "
        "at every inference has no fast kernel.",
    .fix =
        "Static quantization (evoq quantize --scheme int8 --calib DIR --target ...); without data, "
        "float weights.",
    .source =
        "ONNX Runtime 1.30 CPU: 2 to 7 times slower than float Conv; docs/OperatorKernels.md: no "
        "DynamicQuantizeLinear, ConvInteger on CUDA",
    .find = FindDynamic,
    .repair = MakeFloat,
};

extern const PlacementRule kPlaceNoIntegerKernel = {
    .code = "no-integer-kernel",
    .runtimes = "ort-cpu tensorrt openvino",
    .sentence =
        "An operator between Q/DQ for which the runtime has no integer form: it computes in float "
        "between two conversions.",
    .fix = "Replace it by one that has a form, or leave its neighbours in float too.",
    .source =
        "ONNX Runtime 1.31 QDQSelectorActionTransformer; TensorRT 10 Explicit Quantization; "
        "OpenVINO 2025 Low Precision Transformations",
    .find = FindNoKernel,
};

extern const PlacementRule kPlacePairBetweenFloats = {
    .code = "pair-between-floats",
    .runtimes = "ort-cpu ort-cuda tensorrt openvino",
    .sentence =
        "Q/DQ between operators that compute in float: two passes over the data for nothing.",
    .fix =
        "No pair there. (CUDA's kernels for Q/DQ models are float: for integers on that GPU use "
        "the TensorRT provider.)",
    .source = "ONNX Runtime 1.31 QDQFinalCleanup keeps such pairs; docs/OperatorKernels.md",
    .find = FindUseless,
    .repair = RemovePair,
};

extern const PlacementRule kPlaceCpuFallback = {
    .code = "cpu-fallback",
    .runtimes = "ort-cuda",
    .sentence =
        "No CUDA kernel: the operator runs on the CPU and Memcpy nodes carry its values there and "
        "back.",
    .fix = "Replace it by operators that have kernels, or move it to the model's border.",
    .source =
        "ONNX Runtime docs/OperatorKernels.md (operator set 24); microsoft/onnxruntime#18032, "
        "#5958",
    .find = FindHost,
};

}  // namespace evoq
