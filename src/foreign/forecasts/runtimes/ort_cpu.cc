// ONNX Runtime's CPU provider: an operator between DequantizeLinear and QuantizeLinear nodes
// becomes one integer operator when all of its inputs, its only reader and their types fit one of
// the forms below.
#include <algorithm>

#include "foreign/forecasts/qdq.h"
#include "foreign/forecasts/runtime.h"
#include "foreign/forecasts/runtimes/ort_graph.h"
#include "passes/match.h"

namespace evoq {
namespace {

enum class Form { kNone, kConv, kGemm, kMatMul, kEvery, kSplit, kWhere, kMove, kRead };
struct Row {
  const char* op;
  Form form;
};
// The operators that ONNX Runtime's QDQSelectorActionTransformer knows on the CPU.
constexpr Row kRows[] = {
    {"Conv", Form::kConv},         {"Gemm", Form::kGemm},       {"MatMul", Form::kMatMul},
    {"AveragePool", Form::kEvery}, {"LeakyRelu", Form::kEvery}, {"GlobalAveragePool", Form::kEvery},
    {"Sigmoid", Form::kEvery},     {"Softmax", Form::kEvery},   {"Add", Form::kEvery},
    {"Mul", Form::kEvery},         {"Concat", Form::kEvery},    {"Split", Form::kSplit},
    {"Where", Form::kWhere},       {"Resize", Form::kMove},     {"MaxPool", Form::kMove},
    {"ReduceMax", Form::kMove},    {"ReduceMin", Form::kMove},  {"Expand", Form::kMove},
    {"Flatten", Form::kMove},      {"Gather", Form::kMove},     {"GatherElements", Form::kMove},
    {"Reshape", Form::kMove},      {"Slice", Form::kMove},      {"Squeeze", Form::kMove},
    {"Tile", Form::kMove},         {"Transpose", Form::kMove},  {"Unsqueeze", Form::kMove},
    {"ArgMax", Form::kRead},
};

Form FormOf(const Node& node) {
  if (!node.domain.empty()) return Form::kNone;
  for (const Row& row : kRows) {
    if (node.op == row.op) return row.form;
  }
  return Form::kNone;
}

bool ComputesIntegers(const Node& node) {
  for (const char* op : {"DynamicQuantizeLinear", "ConvInteger", "MatMulInteger"}) {
    if (node.domain.empty() && node.op == op) return true;
  }
  return false;
}

bool IsByte(const TensorType& type) {
  return type.dtype == DType::kUint8 || type.dtype == DType::kInt8;
}

class Selector {
 public:
  Selector(const Graph& source, OrtGraph ort)
      : source_(source), graph_(std::move(ort.graph)), removed_(std::move(ort.removed)) {}

  Fates Run() {
    Fates fates;
    for (NodeId id : source_.order())
      fates.nodes.resize(std::max<size_t>(fates.nodes.size(), id.index + 1), Fate::kNone);
    for (NodeId id : source_.order()) {
      if (HasFate(source_, source_.node(id))) fates.nodes[id.index] = FateOf(id);
    }
    for (NodeId id : NodesOf(graph_)) {
      const Node& node = graph_.node(id);
      if (inside_.count(id) || (!IsQuantize(node) && !IsDequantize(node))) continue;
      const bool weights = IsDequantize(node) && graph_.value(node.input(0)).is_constant();
      (weights ? fates.weights : fates.conversions).push_back(id);
    }
    // Nodes that the transformers added are told as the ones they repeat.
    const auto added = [&](NodeId id) { return id.index >= static_cast<int>(fates.nodes.size()); };
    std::erase_if(fates.weights, added);
    std::erase_if(fates.conversions, added);
    return fates;
  }

 private:
  Fate FateOf(NodeId id) {
    if (removed_.count(id)) return Fate::kAbsorbed;
    const Node& node = graph_.node(id);
    if (ComputesIntegers(node) || node.attrs.Has("evoq.from")) return Take(node, Fate::kInteger);
    const ValueId x = node.input(0);
    const Form form = FormOf(node);
    // A condition has 8 bits, too, and is no number.
    if (form != Form::kWhere && x.valid() &&
        (graph_.value(x).type.quantized() || DTypeBits(graph_.value(x).type.dtype) == 8))
      return Fate::kMoved;
    const bool fits = Fits(node, form);
    if (!fits) return AbsorbsBias(node) ? Fate::kAbsorbed : Fate::kFloat;
    return Take(node, form == Form::kMove || form == Form::kSplit || form == Form::kRead
                          ? Fate::kMoved
                          : Fate::kInteger);
  }

  bool Fits(const Node& node, Form form) const {
    if (form == Form::kNone || ClampBehind(node)) return false;
    switch (form) {
      case Form::kConv: return FitsConv(node);
      case Form::kGemm: return FitsGemm(node, node.outputs[0], node.input(2));
      case Form::kMatMul: return FitsMatMul(node);
      case Form::kEvery: return FitsEvery(node, 0, node.inputs.size());
      case Form::kWhere: return FitsEvery(node, 1, node.inputs.size());
      case Form::kSplit: return FitsSplit(node);
      case Form::kMove: return FitsMove(node);
      case Form::kRead: return Read(node, 0) != nullptr;
      case Form::kNone: return false;
    }
    return false;
  }

  const TensorType* Read(const Node& node, size_t i) const {
    return node.input(i).valid() ? ReadQuantType(graph_, node.input(i)) : nullptr;
  }
  // Matrix products take no activations of 16 bits: to them such a value is a float.
  const TensorType* ReadBytes(const Node& node, size_t i) const {
    const TensorType* type = Read(node, i);
    return type != nullptr && IsByte(*type) ? type : nullptr;
  }
  const TensorType* Written(ValueId y) const {
    const NodeId quantize = OnlyQuantizer(graph_, y);
    return quantize.valid() ? QuantTypeOf(graph_, quantize) : nullptr;
  }

  // A Relu or Clip that stays between the operator and what reads it keeps the two apart.
  bool ClampBehind(const Node& node) const {
    if (node.outputs.size() != 1) return false;
    const NodeId next = graph_.OnlyUser(node.outputs[0]);
    if (!graph_.alive(next) || (graph_.node(next).op != "Relu" && graph_.node(next).op != "Clip"))
      return false;
    return graph_.OnlyUser(graph_.node(next).outputs[0]).valid();
  }

  // Float weights and biases are quantized by ONNX Runtime itself when x has one scale and the
  // result is quantized.
  bool IsFloatConstant(ValueId v) const { return v.valid() && FloatConstant(graph_, v) != nullptr; }

  bool FitsWeights(const Node& node, ValueId bias, bool quantized) const {
    const TensorType *x = Read(node, 0), *w = Read(node, 1);
    const bool fills = quantized && x->quant->per_tensor();
    if (w == nullptr &&
        !(fills && IsFloatConstant(node.input(1)) && (!bias.valid() || IsFloatConstant(bias))))
      return false;
    if (w != nullptr && !IsByte(*w)) return false;
    if (!bias.valid()) return true;
    if (const TensorType* b = ReadQuantType(graph_, bias))
      return w != nullptr && IsBiasQuantType(*b, *x, *w);
    if (!fills || !IsFloatConstant(bias) || graph_.value(bias).type.shape.rank() != 1) return false;
    if (w == nullptr || w->quant->per_tensor()) return true;
    return w->quant->axis == WeightAxis(node, w->shape.rank());
  }

  bool FitsConv(const Node& node) const {
    const TensorType *x = Read(node, 0), *y = Written(node.outputs[0]);
    if (x == nullptr || y == nullptr || x->dtype != DType::kUint8 || y->dtype != x->dtype)
      return false;
    const TensorType* w = Read(node, 1);
    if (w != nullptr && !w->quant->per_tensor() && w->quant->axis != 0) return false;
    return FitsWeights(node, node.input(2), true);
  }

  bool FitsGemm(const Node& node, ValueId result, ValueId bias) const {
    const TensorType* x = ReadBytes(node, 0);
    if (x == nullptr) {
      const bool plain = node.attrs.Float("alpha", 1) == 1 && node.attrs.Float("beta", 1) == 1 &&
                         node.attrs.Int("transA") == 0 && node.attrs.Int("transB") == 0;
      return plain && FitsMatMulNBits(node, Read(node, 1), result);
    }
    if (node.attrs.Float("beta", 1) != 1 || node.attrs.Int("transA") != 0) return false;
    const TensorType *w = Read(node, 1), *y = Written(result);
    if (x->dtype == DType::kInt8 && (w == nullptr || w->dtype != DType::kInt8)) return false;
    if (y == nullptr && HasQuantizer(result)) return false;
    if (y != nullptr && y->dtype != x->dtype) return false;
    return FitsWeights(node, bias, y != nullptr);
  }

  bool HasQuantizer(ValueId y) const {
    const auto& users = graph_.value(y).users;
    return std::any_of(users.begin(), users.end(),
                       [&](NodeId user) { return IsQuantize(graph_.node(user)); });
  }

  bool HasByteQuantizer(ValueId y) const {
    const auto& users = graph_.value(y).users;
    return std::any_of(users.begin(), users.end(), [&](NodeId user) {
      const TensorType* type = IsQuantize(graph_.node(user)) ? QuantTypeOf(graph_, user) : nullptr;
      return type != nullptr && IsByte(*type);
    });
  }

  // The Add of a constant vector behind a MatMul of a matrix, which together become a Gemm.
  NodeId BiasBehind(const Node& node) const {
    if (node.op != "MatMul" || !node.domain.empty()) return {};
    const NodeId add = graph_.OnlyUser(node.outputs[0]);
    if (!graph_.alive(add) || graph_.node(add).op != "Add") return {};
    const ValueId bias =
        graph_.node(add).input(graph_.node(add).input(0) == node.outputs[0] ? 1 : 0);
    const Shape &x = graph_.value(node.input(0)).type.shape,
                &w = graph_.value(node.input(1)).type.shape;
    const bool vector = IsConstantLike(graph_, bias) && graph_.value(bias).type.shape.rank() == 1;
    return vector && x.ranked() && x.rank() == 2 && w.ranked() && w.rank() == 2 ? add : NodeId{};
  }

  bool AbsorbsBias(const Node& node) const {
    if (node.op != "Add" || !node.domain.empty()) return false;
    for (size_t i : {0, 1}) {
      const NodeId product = ProducedBy(graph_, node.input(i), "MatMul");
      if (product.valid() && BiasBehind(graph_.node(product)).valid() &&
          FitsMatMul(graph_.node(product)))
        return true;
    }
    return false;
  }

  bool FitsMatMul(const Node& node) const {
    if (const NodeId add = BiasBehind(node); add.valid()) {
      const Node& sum = graph_.node(add);
      if (ReadBytes(node, 0) == nullptr)
        return FitsMatMulNBits(node, Read(node, 1), sum.outputs[0]);
      return FitsGemm(node, sum.outputs[0], sum.input(sum.input(0) == node.outputs[0] ? 1 : 0));
    }
    const TensorType *a = ReadBytes(node, 0), *b = Read(node, 1), *y = Written(node.outputs[0]);
    if (a == nullptr) return FitsMatMulNBits(node, b, node.outputs[0]);
    if (b == nullptr || a->dtype != DType::kUint8 || !IsByte(*b)) return false;
    return y == nullptr ? !HasQuantizer(node.outputs[0]) : y->dtype == a->dtype;
  }

  // Float activations, or ones of 16 bits, with weights of 2, 4 or 8 bits: in blocks along the
  // depth, per column, or with one scale.
  bool FitsMatMulNBits(const Node& node, const TensorType* b, ValueId result) const {
    if (b == nullptr || b->shape.rank() != 2 || !IsConstantLike(graph_, node.input(1)) ||
        HasByteQuantizer(result))
      return false;
    if (b->quant->block == 0) return b->quant->per_tensor() || b->quant->axis == 1;
    return b->quant->axis == 0 && b->quant->block >= 16 &&
           (b->quant->block & (b->quant->block - 1)) == 0;
  }

  bool FitsEvery(const Node& node, size_t first, size_t last) const {
    const TensorType* y = Written(node.outputs[0]);
    if (y == nullptr || !IsByte(*y)) return false;
    for (size_t i = first; i < last; ++i) {
      const TensorType* x = Read(node, i);
      if (x == nullptr || x->dtype != y->dtype) return false;
    }
    return true;
  }

  bool FitsSplit(const Node& node) const {
    const TensorType* x = Read(node, 0);
    return x != nullptr && std::all_of(node.outputs.begin(), node.outputs.end(), [&](ValueId v) {
             const TensorType* y = Written(v);
             return y != nullptr && SameQuant(*x, *y);
           });
  }

  bool FitsMove(const Node& node) const {
    const TensorType *x = Read(node, 0), *y = Written(node.outputs[0]);
    if (x == nullptr || y == nullptr || !x->quant->per_tensor() || !SameQuant(*x, *y) ||
        node.outputs.size() != 1)
      return false;
    if (node.op == "Resize" && node.attrs.String("mode", "nearest") != "nearest") return false;
    return !MovesBytesOnly(node) || IsByte(*x);
  }

  // Those that compare values or count them in have kernels for 8 bits only.
  static bool MovesBytesOnly(const Node& node) {
    for (const char* op : {"MaxPool", "Resize", "ReduceMax", "ReduceMin"}) {
      if (node.op == op) return true;
    }
    return false;
  }

  // Remembers which conversions the operator takes in.
  Fate Take(const Node& node, Fate fate) {
    for (ValueId v : node.inputs) {
      if (const NodeId dequantize =
              v.valid() ? ProducedBy(graph_, v, "DequantizeLinear") : NodeId{};
          dequantize.valid())
        inside_.insert(dequantize);
    }
    ValueId y = node.outputs.empty() ? ValueId{} : node.outputs[0];
    if (const NodeId add = BiasBehind(node); add.valid()) {
      for (ValueId v : graph_.node(add).inputs) {
        if (const NodeId dequantize = ProducedBy(graph_, v, "DequantizeLinear"); dequantize.valid())
          inside_.insert(dequantize);
      }
      y = graph_.node(add).outputs[0];
    }
    for (ValueId v : node.outputs) {
      if (const NodeId quantize = v.valid() ? OnlyQuantizer(graph_, v) : NodeId{}; quantize.valid())
        inside_.insert(quantize);
    }
    if (const NodeId quantize = y.valid() ? OnlyQuantizer(graph_, y) : NodeId{}; quantize.valid())
      inside_.insert(quantize);
    return fate;
  }

  const Graph& source_;
  Graph graph_;
  std::set<NodeId> removed_;
  std::set<NodeId> inside_;  // conversions that integer operators take in
};

Fates Run(const Graph& graph) { return Selector(graph, MakeOrtGraph(graph)).Run(); }

}  // namespace

extern const Runtime kRuntimeOrtCpu = {
    .name = "ort-cpu",
    .doc = "ONNX Runtime's CPU provider on x86, all optimizations, default session options",
    .source =
        "ONNX Runtime 1.32 core/optimizer/qdq_transformer (selectors, propagation, S8 to U8, "
        "weight and bias quantization); checked against 1.32 by bench/forecast.py",
    .placement = "ort",
    .forecast = Run,
};

}  // namespace evoq
