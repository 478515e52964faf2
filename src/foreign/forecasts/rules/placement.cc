// Operators that could compute on integers and lack a pair on an input or on their result.
#include <algorithm>

#include "foreign/forecasts/complete.h"
#include "foreign/forecasts/qdq.h"
#include "foreign/forecasts/rule.h"
#include "passes/match.h"
#include "quant/plan.h"

namespace evoq {
namespace {

bool Is(const Node& node, std::initializer_list<const char*> ops) {
  return node.domain.empty() &&
         std::any_of(ops.begin(), ops.end(), [&](const char* op) { return node.op == op; });
}

// ONNX Runtime has one integer operator for each float one and wants its result quantized; the
// others look at inputs.
bool NeedsOutput(const PlacementCase& c) { return c.IsFor("ort-cpu"); }

// Of several activations, all of which it reads as integers or none.
bool IsJoined(const Node& node) { return Is(node, {"Add", "Concat"}); }

// Whether anything that reads `value`, through sums, joins and moves, is quantized or computes on
// integers: behind what only float operators read there are conversions anyway.
bool IsReadAsIntegers(const PlacementCase& c, ValueId value) {
  std::vector<ValueId> ahead = {value};
  std::set<ValueId> seen = {value};
  while (!ahead.empty()) {
    const ValueId at = ahead.back();
    ahead.pop_back();
    for (NodeId user : c.graph.value(at).users) {
      const Node& node = c.graph.node(user);
      if (IsQuantize(node) || c.fates.at(user) == Fate::kInteger) return true;
      if ((MovesOnly(node) || IsJoined(node) || IsClamp(node)) && !node.outputs.empty() &&
          seen.insert(node.outputs[0]).second)
        ahead.push_back(node.outputs[0]);
    }
  }
  return false;
}

// ONNX Runtime's MaxPool of 8 bits is fast in channels-last form alone, which it takes between
// integer convolutions; elsewhere it is slower than the float one.
bool HasFastForm(const PlacementCase& c, const Node& node) {
  if (!c.IsFor("ort-cpu") || !Is(node, {"MaxPool"})) return true;
  NodeId at = c.graph.value(node.input(0)).producer;
  while (c.graph.alive(at)) {
    const Node& before = c.graph.node(at);
    if (before.op == "Conv") {
      const TensorType* x = ReadQuantType(c.graph, before.input(0));
      return c.fates.at(at) == Fate::kInteger ||
             (x != nullptr && WeightQuantType(c.graph, before) != nullptr);
    }
    if (!IsQuantize(before) && !IsDequantize(before) && !OnIntegers(c.fates.at(at)) &&
        !IsClamp(before))
      return false;
    at = c.graph.value(before.input(0)).producer;
  }
  return false;
}

// What its repair needs, and that it gains: else the fault says why not.
void JudgeRepair(const PlacementCase& c, const Node& node, bool complete, Fault& fault) {
  const char* vain = !NearIntegers(c, node)  ? "nothing gained: its neighbours stay float"
                     : !HasFastForm(c, node) ? "nothing gained: no integer convolution before it"
                                             : nullptr;
  fault.repairable = complete && vain == nullptr;
  if (vain != nullptr) fault.detail += (fault.detail.empty() ? "" : "; ") + std::string(vain);
}

std::vector<Fault> FindIncomplete(const PlacementCase& c,
                                  bool (*of_kind)(const Graph&, const Node&)) {
  return FaultsWhere(c, [&](NodeId id, const Node& node) -> std::optional<Fault> {
    if (!c.IsFloat(id) || !of_kind(c.graph, node) || !TouchesIntegers(c.graph, node))
      return std::nullopt;
    if (IsJoined(node) && !IsReadAsIntegers(c, node.outputs[0])) return std::nullopt;
    const Missing missing = MissingPairs(c.graph, node);
    if (missing.inputs.empty() &&
        !(missing.output && NeedsOutput(c) && LeadsToIntegers(c.graph, node.outputs[0])))
      return std::nullopt;
    Fault fault;
    for (size_t i : missing.inputs)
      fault.detail += (fault.detail.empty() ? "input " : ", input ") + std::to_string(i);
    if (missing.output && NeedsOutput(c))
      fault.detail += fault.detail.empty() ? "result" : ", result";
    JudgeRepair(c, node, PlanCompletion(c.graph, node, missing, NeedsOutput(c)).complete, fault);
    return fault;
  });
}

Result<bool> Complete(Graph& graph, const PlacementCase& c, const Fault& fault) {
  return CompletePairs(graph, fault.node, NeedsOutput(c));
}

bool IsSum(const Graph& graph, const Node& node) {
  return Is(node, {"Add"}) && IsActivation(graph, node.input(0)) &&
         IsActivation(graph, node.input(1));
}
bool IsConcat(const Graph&, const Node& node) { return Is(node, {"Concat"}); }
bool IsPooling(const Graph&, const Node& node) { return IsAverage(node); }
bool IsMove(const Graph&, const Node& node) {
  return Is(node, {"MaxPool", "Reshape", "Transpose", "Flatten", "Squeeze", "Unsqueeze", "Slice",
                   "Gather", "Expand", "Tile", "Split"}) ||
         (Is(node, {"Resize"}) && node.attrs.String("mode", "nearest") == "nearest");
}

std::vector<Fault> FindResidual(const PlacementCase& c) { return FindIncomplete(c, IsSum); }
std::vector<Fault> FindConcat(const PlacementCase& c) { return FindIncomplete(c, IsConcat); }
std::vector<Fault> FindPooling(const PlacementCase& c) { return FindIncomplete(c, IsPooling); }
std::vector<Fault> FindMove(const PlacementCase& c) { return FindIncomplete(c, IsMove); }

// An operator that moves values, with other numbers on its result than on its input.
std::vector<Fault> FindQuantTypeChange(const PlacementCase& c) {
  return FaultsWhere(c, [&](NodeId id, const Node& node) -> std::optional<Fault> {
    if (!c.IsFloat(id) || !IsMove(c.graph, node) || node.outputs.size() != 1) return std::nullopt;
    const TensorType* from = ReadQuantType(c.graph, node.input(0));
    const NodeId quantize = OnlyQuantizer(c.graph, node.outputs[0]);
    const TensorType* to = quantize.valid() ? QuantTypeOf(c.graph, quantize) : nullptr;
    if (from == nullptr || to == nullptr || !from->quant->per_tensor() || SameQuant(*from, *to))
      return std::nullopt;
    Fault fault;
    JudgeRepair(c, node, !c.graph.IsOutput(c.graph.node(quantize).outputs[0]), fault);
    return fault;
  });
}

Result<bool> TakeInputQuantType(Graph& graph, const PlacementCase&, const Fault& fault) {
  const Node& node = graph.node(fault.node);
  const TensorType* from = ReadQuantType(graph, node.input(0));
  const NodeId quantize = OnlyQuantizer(graph, node.outputs[0]);
  if (from == nullptr || !quantize.valid()) return false;
  SetQuantType(graph, graph.node(quantize).outputs[0], TensorType(*from));
  return true;
}

// A result that is quantized for some readers and read as it is by others.
std::vector<Fault> FindReadTwice(const PlacementCase& c) {
  return FaultsWhere(c, [&](NodeId id, const Node& node) -> std::optional<Fault> {
    if (!c.IsFloat(id) || node.outputs.size() != 1) return std::nullopt;
    if (!IsWeighted(node) && !IsClamp(node) &&
        !Is(node, {"Add", "Mul", "AveragePool", "GlobalAveragePool"}))
      return std::nullopt;
    if (WrittenQuantType(c.graph, node.outputs[0]) != nullptr) return std::nullopt;
    const auto& users = c.graph.value(node.outputs[0]).users;
    const auto quantizers = std::count_if(
        users.begin(), users.end(), [&](NodeId user) { return IsQuantize(c.graph.node(user)); });
    const bool others =
        quantizers < static_cast<long>(users.size()) || c.graph.IsOutput(node.outputs[0]);
    if (quantizers == 0 || (quantizers == 1 && !others)) return std::nullopt;
    return Fault{.repairable = quantizers == 1};
  });
}

Result<bool> ReadThroughPair(Graph& graph, const PlacementCase&, const Fault& fault) {
  const ValueId y = graph.node(fault.node).outputs[0];
  for (NodeId user : std::vector<NodeId>(graph.value(y).users)) {
    const TensorType* type = IsQuantize(graph.node(user)) ? QuantTypeOf(graph, user) : nullptr;
    if (type == nullptr) continue;
    MoveReaders(graph, y, AddPair(graph, y, TensorType(*type)), true);
    return true;
  }
  return false;
}

}  // namespace

extern const PlacementRule kPlaceResidualNotQuantized = {
    .code = "residual-not-quantized",
    .runtimes = "ort-cpu tensorrt openvino",
    .sentence =
        "A sum of two activations reads at least one of them in float, so the branches around it "
        "are converted to float and back.",
    .fix =
        "Q/DQ on the shortcut too (the pair that its convolution reads serves both); for ONNX "
        "Runtime on both addends and on the sum.",
    .source =
        "NVIDIA/TensorRT#1992; TensorRT 10 Explicit Quantization, placement; ONNX Runtime 1.31 "
        "BinarySelector",
    .find = FindResidual,
    .repair = Complete,
};

extern const PlacementRule kPlaceConcatNotQuantized = {
    .code = "concat-not-quantized",
    .runtimes = "ort-cpu tensorrt openvino",
    .sentence = "A Concat reads a part in float, so all parts are joined in float.",
    .fix =
        "Q/DQ on every part and on the result: parts that nothing else determines take the "
        "result's scale.",
    .source =
        "ONNX Runtime 1.31 InputVariadicSelector; TensorRT 10 Explicit Quantization; OpenVINO 2025 "
        "ConcatTransformation",
    .find = FindConcat,
    .repair = Complete,
};

extern const PlacementRule kPlacePoolingInFloat = {
    .code = "pooling-in-float",
    .runtimes = "ort-cpu tensorrt openvino",
    .sentence =
        "Average pooling runs in float beside integer operators: four times the bytes, and "
        "conversions.",
    .fix = "Q/DQ before the pooling, global pooling included; behind it, its input's scale serves.",
    .source =
        "ONNX Runtime 1.31 UnarySelector; TensorRT 10 Explicit Quantization, placement; OpenVINO "
        "2025 AvgPoolTransformation",
    .find = FindPooling,
    .repair = Complete,
};

extern const PlacementRule kPlaceMoveInFloat = {
    .code = "move-in-float",
    .runtimes = "ort-cpu tensorrt openvino",
    .sentence =
        "An operator that only moves or selects values (MaxPool, Resize nearest, Reshape, "
        "Transpose, ...) has Q/DQ on one side only and moves floats.",
    .fix = "The same pair on its other side: integers pass through it unchanged.",
    .source =
        "ONNX Runtime 1.31 DropQDQNodesSelector, CanNodePropagate; TensorRT 10 Q/DQ propagation",
    .find = FindMove,
    .repair = Complete,
};

extern const PlacementRule kPlaceQuantTypeChange = {
    .code = "grid-change",
    .runtimes = "ort-cpu",
    .sentence =
        "An operator that only moves values has different scales or zero points on its two sides, "
        "so it runs in float.",
    .fix = "The input's scale and zero point on the result too: it holds the same numbers.",
    .source = "ONNX Runtime 1.31 IsQDQPairSupported",
    .find = FindQuantTypeChange,
    .repair = TakeInputQuantType,
};

extern const PlacementRule kPlaceOutputReadTwice = {
    .code = "output-read-twice",
    .runtimes = "ort-cpu tensorrt openvino",
    .sentence =
        "The result is quantized for one reader and read in float by another, so the operator "
        "writes float.",
    .fix = "Let every reader read the quantized value (through its DequantizeLinear).",
    .source = "ONNX Runtime 1.31 NodeGroupSelector::CheckQDQNodes; NVIDIA/TensorRT#1992",
    .find = FindReadTwice,
    .repair = ReadThroughPair,
};

}  // namespace evoq
