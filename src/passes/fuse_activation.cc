#include "passes/match.h"

namespace evoq {
namespace {

// The node computes with integers, or will when import-qdq has run.
bool IsIntegerArithmetic(const Graph& graph, const Node& node) {
  for (ValueId in : node.inputs) {
    if (!in.valid() || graph.value(in).is_constant()) continue;
    if (graph.value(in).type.quantized() || ProducedBy(graph, in, "DequantizeLinear").valid()) return true;
  }
  return false;
}

bool Fuse(Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  const bool add = node.domain.empty() && node.op == "Add";
  if ((!IsLinear(node) && !add) || HasActivation(node)) return false;
  const TensorType& type = graph.value(node.outputs[0]).type;
  if (type.dtype != DType::kFloat32 || type.quantized()) return false;
  const NodeId next = OnlyReader(graph, id);
  if (!graph.alive(next) || graph.node(next).input(0) != node.outputs[0]) return false;
  const auto activation = ActivationOf(graph, graph.node(next));
  if (!activation) return false;
  const bool integers = IsIntegerArithmetic(graph, node);
  if (integers && !IsPiecewiseLinear(activation->kind)) return false;
  if (!integers && graph.value(graph.node(next).outputs[0]).type.quantized()) return false;
  ActivationToAttrs(*activation, graph.attrs(id));
  Absorb(graph, id, next);
  return true;
}

Result<int> Run(Graph& graph) {
  int changes = 0;
  for (NodeId id : NodesOf(graph)) {
    if (graph.alive(id)) changes += Fuse(graph, id);
  }
  return changes;
}

}  // namespace

extern const PassDef kFuseActivation;
const PassDef kFuseActivation = {
    "fuse-activation", "Relu, Clip, LeakyRelu, Sigmoid, ... after Conv, ConvTranspose, MatMul or Add become its activation.",
    Stage::kOptimize, Run};

}  // namespace evoq
