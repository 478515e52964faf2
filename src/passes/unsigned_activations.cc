#include "ops/held.h"
#include "passes/match.h"

namespace evoq {
namespace {

bool IsSignedActivation(const TensorType& type) {
  return type.dtype == DType::kInt8 && IsByteQuantized(type);
}

// The same real values, stored as uint8: q + 128 with zero point + 128.
TensorType Unsigned(const TensorType& type) {
  return TensorType(
      DType::kUint8, type.shape,
      QuantParams::PerTensor(type.quant->scales[0], type.quant->zero_points[0] + 128));
}

Tensor Unsigned(const Tensor& tensor) {
  Tensor to = Tensor::Allocate(Unsigned(tensor.type()));
  const int8_t* q = tensor.data<int8_t>();
  for (int64_t i = 0; i < tensor.elements(); ++i)
    to.mutable_data<uint8_t>()[i] = static_cast<uint8_t>(q[i] + 128);
  return to;
}

// Graph inputs keep their type: readers read a requantized copy, which changes no value.
int ConvertInputs(Graph& graph) {
  int changes = 0;
  for (ValueId in : std::vector<ValueId>(graph.inputs())) {
    const Value& value = graph.value(in);
    if (!IsSignedActivation(value.type) || value.users.empty()) continue;
    std::vector<NodeId> users;
    for (NodeId user : value.users) {
      const bool converts = IsOp(graph, user, "QuantizeLinear") &&
                            graph.value(graph.node(user).outputs[0]).type == Unsigned(value.type);
      if (!converts && !IsOp(graph, user, "DequantizeLinear")) users.push_back(user);
    }
    if (users.empty()) continue;
    const ValueId to =
        graph.Apply("QuantizeLinear", value.name + "_unsigned", {in}, {}, Unsigned(value.type));
    for (NodeId user : users) graph.ReplaceUsesIn(user, in, to);
    ++changes;
  }
  return changes;
}

// Constants that are read as activations, not as weights of linear operators.
int ConvertConstants(Graph& graph, NodeId id) {
  int changes = 0;
  const Node node = graph.node(id);
  if (IsDequantize(node)) return 0;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const ValueId in = node.inputs[i];
    if (!in.valid() || !graph.value(in).is_constant() || !IsSignedActivation(graph.value(in).type))
      continue;
    if (!graph.value(in).constant.layout().empty() || (i == 1 && IsWeighted(node))) continue;
    graph.SetInput(
        id, i,
        graph.AddConstant(graph.value(in).name + "_unsigned", Unsigned(graph.value(in).constant)));
    ++changes;
  }
  return changes;
}

int ConvertOutputs(Graph& graph, NodeId id) {
  int changes = 0;
  for (size_t i = 0; i < graph.node(id).outputs.size(); ++i) {
    const ValueId out = graph.node(id).outputs[i];
    if (!out.valid() || !IsSignedActivation(graph.value(out).type)) continue;
    const TensorType type = Unsigned(graph.value(out).type);
    if (!graph.IsOutput(out)) {
      graph.SetType(out, type);
    } else if (IsOp(graph, id, "QuantizeLinear")) {
      continue;  // writes the graph's output from whatever it reads
    } else {
      const std::string name = graph.value(out).name;
      const ValueId inner = graph.AddValue(name + "_unsigned", type);
      for (NodeId user : std::vector<NodeId>(graph.value(out).users))
        graph.ReplaceUsesIn(user, out, inner);
      graph.SetOutput(id, i, inner);
      graph.AddNode(
          {.op = "QuantizeLinear", .name = name + "_signed", .inputs = {inner}, .outputs = {out}});
    }
    ++changes;
  }
  return changes;
}

Result<int> Run(Graph& graph) {
  int changes = ConvertInputs(graph);
  for (NodeId id : NodesOf(graph)) {
    if (!IsHeld(graph.node(id))) changes += ConvertConstants(graph, id) + ConvertOutputs(graph, id);
  }
  return changes;
}

}  // namespace

extern const PassDef kUnsignedActivations = {
    .name = "unsigned-activations",
    .doc =
        "int8 activations become uint8 with zero point + 128; inputs and outputs keep their type.",
    .stage = Stage::kLower,
    .level = 0,
    .run = Run,
};

}  // namespace evoq
