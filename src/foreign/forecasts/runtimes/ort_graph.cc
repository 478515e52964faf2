#include "foreign/forecasts/runtimes/ort_graph.h"

#include <cmath>

#include "foreign/forecasts/qdq.h"
#include "passes/match.h"

namespace evoq {
namespace {

class Transformer {
 public:
  explicit Transformer(const Graph& graph) : graph_(graph) {}

  OrtGraph Run() {
    // MaxPool takes integers from operator set 12 on.
    const auto opset = graph_.metadata.find("onnx.opset");
    old_pools_ = opset != graph_.metadata.end() && std::atoi(opset->second.c_str()) < 12;
    for (NodeId id : NodesOf(graph_)) {
      if (graph_.alive(id) && IsQuantize(graph_.node(id))) MergeEqual(id);
    }
    for (NodeId id : NodesOf(graph_)) {
      if (IsDequantize(graph_.node(id))) MakeUnique(id);
    }
    for (NodeId id : NodesOf(graph_)) {
      if (IsDequantize(graph_.node(id))) Forward(id);
    }
    for (NodeId id : NodesOf(graph_)) {
      if (IsQuantize(graph_.node(id))) Backward(id);
    }
    for (NodeId id : NodesOf(graph_)) RemoveClamp(id);
    for (NodeId id : NodesOf(graph_)) {
      if (IsQuantize(graph_.node(id))) MakeUnsigned(id);
    }
    return {std::move(graph_), std::move(removed_)};
  }

 private:
  bool Propagates(const Node& node) const {
    if (!node.domain.empty() || node.outputs.size() != 1) return false;
    for (const char* op : {"Reshape", "Transpose", "Squeeze", "Unsqueeze", "Slice"}) {
      if (node.op == op) return true;
    }
    return node.op == "MaxPool" && !old_pools_;
  }

  ValueId Dequantized(ValueId stored) {
    const TensorType real(DType::kFloat32, graph_.value(stored).type.shape);
    const ValueId y = graph_.AddValue(graph_.value(stored).name + "_dq", real);
    graph_.AddNode({.op = "DequantizeLinear",
                    .name = graph_.value(stored).name + "_dq",
                    .inputs = {stored},
                    .outputs = {y}});
    return y;
  }

  // The other quantizers of the same value to the same type go: common subexpressions.
  void MergeEqual(NodeId id) {
    const TensorType* type = QuantTypeOf(graph_, id);
    const ValueId x = graph_.node(id).input(0), stored = graph_.node(id).outputs[0];
    if (type == nullptr) return;
    for (NodeId other : std::vector<NodeId>(graph_.value(x).users)) {
      const TensorType* same =
          other != id && IsQuantize(graph_.node(other)) ? QuantTypeOf(graph_, other) : nullptr;
      if (same == nullptr || !SameQuant(*type, *same) ||
          graph_.IsOutput(graph_.node(other).outputs[0]))
        continue;
      graph_.ReplaceUses(graph_.node(other).outputs[0], stored);
      graph_.RemoveNode(other);
    }
  }

  void MakeUnique(NodeId id) {
    const ValueId real = graph_.node(id).outputs[0], stored = graph_.node(id).input(0);
    const auto& users = graph_.value(real).users;
    const std::set<NodeId> readers(users.begin(), users.end());
    bool first = !graph_.IsOutput(real);
    for (NodeId reader : readers) {
      for (size_t i = 0; i < graph_.node(reader).inputs.size(); ++i) {
        if (graph_.node(reader).inputs[i] != real) continue;
        if (!first) graph_.SetInput(reader, i, Dequantized(stored));
        first = false;
      }
    }
  }

  // Everything but quantizers reads `y` through a pair of these quantization parameters.
  void PairBehind(ValueId y, const TensorType& quant_type) {
    std::vector<std::pair<NodeId, size_t>> readers;
    const std::vector<NodeId> users = graph_.value(y).users;
    for (NodeId reader : std::set<NodeId>(users.begin(), users.end())) {
      for (size_t i = 0; i < graph_.node(reader).inputs.size(); ++i) {
        if (graph_.node(reader).inputs[i] == y && !IsQuantize(graph_.node(reader)))
          readers.emplace_back(reader, i);
      }
    }
    const bool output = graph_.IsOutput(y);
    if (output ? !users.empty() : readers.empty()) return;
    TensorType type = quant_type;
    type.shape = graph_.value(y).type.shape;
    const ValueId stored =
        graph_.Apply("QuantizeLinear", graph_.value(y).name + "_q", {y}, {}, type);
    if (output) {
      const ValueId real = Dequantized(stored);
      for (size_t i = 0; i < graph_.outputs().size(); ++i) {
        if (graph_.outputs()[i] == y) graph_.ReplaceOutput(i, real);
      }
      return;
    }
    for (const auto& [reader, i] : readers) {
      graph_.SetInput(reader, i, Dequantized(stored));
      // What propagates reads reals as its first input only.
      if (Propagates(graph_.node(reader))) PairBehind(graph_.node(reader).outputs[0], type);
    }
  }

  void Forward(NodeId id) {
    const TensorType* type = QuantTypeOf(graph_, id);
    const NodeId reader = graph_.OnlyUser(graph_.node(id).outputs[0]);
    if (type == nullptr || !type->quant->per_tensor() || !graph_.alive(reader) ||
        !Propagates(graph_.node(reader)))
      return;
    if (graph_.node(reader).input(0) == graph_.node(id).outputs[0])
      PairBehind(graph_.node(reader).outputs[0], TensorType(*type));
  }

  void Backward(NodeId id) {
    const TensorType* known = QuantTypeOf(graph_, id);
    if (known == nullptr || !known->quant->per_tensor()) return;
    const TensorType type = *known;
    ValueId x = graph_.node(id).input(0);
    while (graph_.OnlyUser(x).valid()) {
      const NodeId source = graph_.value(x).producer;
      if (!graph_.alive(source) || !Propagates(graph_.node(source))) return;
      x = graph_.node(source).input(0);
      if (graph_.value(x).is_constant() || (!graph_.IsInput(x) && !graph_.OnlyUser(x).valid()))
        return;
      if (ProducedBy(graph_, x, "DequantizeLinear").valid()) return;
      TensorType stored_type = type;
      stored_type.shape = graph_.value(x).type.shape;
      const ValueId stored =
          graph_.Apply("QuantizeLinear", graph_.value(x).name + "_q", {x}, {}, stored_type);
      graph_.SetInput(source, 0, Dequantized(stored));
      if (graph_.IsInput(x)) return;
      // The value now has the new quantizer as its only reader: go on from there.
    }
  }

  // Whether rounding to `type` gives the same with and without the clamp.
  bool Superfluous(const Node& node, const TensorType& type) const {
    const auto activation = ActivationOf(graph_, node);
    if (!activation || !type.quant->per_tensor()) return false;
    if (activation->kind == ActivationKind::kRelu)
      return type.quant->zero_points[0] == IntegerMin(type.dtype);
    if (activation->kind != ActivationKind::kClip) return false;
    const double scale = type.quant->scales[0];
    const auto at = [&](float bound) {
      return std::rint(static_cast<double>(bound) / scale) + type.quant->zero_points[0];
    };
    return at(activation->alpha) <= static_cast<double>(IntegerMin(type.dtype)) &&
           at(activation->beta) >= static_cast<double>(IntegerMax(type.dtype));
  }

  void RemoveClamp(NodeId id) {
    const Node& node = graph_.node(id);
    if (!node.domain.empty() || (node.op != "Relu" && node.op != "Clip")) return;
    const NodeId quantize = OnlyQuantizer(graph_, node.outputs[0]);
    const TensorType* type = quantize.valid() ? QuantTypeOf(graph_, quantize) : nullptr;
    if (type == nullptr || !Superfluous(node, *type)) return;
    const ValueId x = node.input(0);
    graph_.SetInput(quantize, 0, x);
    graph_.RemoveNode(id);
    removed_.insert(id);
  }

  void MakeUnsigned(NodeId id) {
    const TensorType* type = QuantTypeOf(graph_, id);
    if (type == nullptr || type->dtype != DType::kInt8 || !type->quant->per_tensor()) return;
    const ValueId stored = graph_.node(id).outputs[0];
    const NodeId reader = graph_.OnlyUser(stored);
    if (!graph_.alive(reader) || !IsDequantize(graph_.node(reader))) return;
    graph_.SetType(stored, AsUint8(*type));
  }

  Graph graph_;
  std::set<NodeId> removed_;
  bool old_pools_ = false;
};

}  // namespace

OrtGraph MakeOrtGraph(const Graph& graph) { return Transformer(graph).Run(); }

}  // namespace evoq
