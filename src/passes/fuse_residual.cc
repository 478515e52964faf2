#include <vector>

#include "passes/match.h"

namespace evoq {
namespace {

bool IsDequantized(const Graph& graph, ValueId value) {
  return ProducedBy(graph, value, "DequantizeLinear").valid();
}

// The sum, perhaps through one activation, is read by a QuantizeLinear only.
bool IsQuantizedAfterwards(const Graph& graph, NodeId add) {
  NodeId next = OnlyReader(graph, add);
  if (graph.alive(next) && ActivationOf(graph, graph.node(next))) next = OnlyReader(graph, next);
  return IsOp(graph, next, "QuantizeLinear");
}

// Integer operators take an integer residual when their output is an integer and a float one when
// it is float; the same holds for operators that import-qdq is going to make integer ones.
bool TypesAgree(const Graph& graph, const Node& linear, NodeId add, ValueId residual) {
  const TensorType &r = graph.value(residual).type,
                   &y = graph.value(graph.node(add).outputs[0]).type;
  if (IsDequantized(graph, linear.input(0)))
    return !y.quantized() && IsDequantized(graph, residual) == IsQuantizedAfterwards(graph, add);
  if (graph.value(linear.input(0)).type.quantized()) return r.quantized() == y.quantized();
  return !r.quantized() && !y.quantized();
}

// The linear node behind operand i of the Add, if it can take the other operand as residual.
NodeId Candidate(const Graph& graph, NodeId add, size_t i) {
  const ValueId mine = graph.node(add).input(i), other = graph.node(add).input(1 - i);
  const NodeId id = graph.value(mine).producer;
  if (!graph.alive(id) || graph.OnlyUser(mine) != add || graph.value(other).is_constant())
    return {};
  const Node& linear = graph.node(id);
  if (!IsLinear(linear) || HasActivation(linear) || linear.input(3).valid() ||
      linear.attrs.Int("channels_last") != 0)
    return {};
  const TensorType &type = graph.value(mine).type, &residual = graph.value(other).type;
  if (type.dtype != DType::kFloat32) return {};
  if (!SameShape(type.shape, residual.shape) || !TypesAgree(graph, linear, add, other)) return {};
  return id;
}

// Positions in execution order, by node. Fusing leaves those of other nodes in their order.
std::vector<size_t> Ranks(const Graph& graph) {
  std::vector<size_t> ranks;
  for (size_t i = 0; i < graph.order().size(); ++i) {
    const auto node = static_cast<size_t>(graph.order()[i].index);
    if (node >= ranks.size()) ranks.resize(node + 1);
    ranks[node] = i;
  }
  return ranks;
}

// Of two candidates the later one takes the residual, which is computed before it anyway. Only the
// Add reads the linear operator's output, so the residual cannot depend on it: no cycle.
bool Fuse(Graph& graph, NodeId add, const std::vector<size_t>& ranks) {
  const NodeId a = Candidate(graph, add, 0), b = Candidate(graph, add, 1);
  if (!a.valid() && !b.valid()) return false;
  const bool first = !b.valid() || (a.valid() && ranks[a.index] > ranks[b.index]);
  const NodeId linear = first ? a : b;
  const Node sum = graph.node(add);
  graph.SetInput(linear, 3, sum.input(first ? 1 : 0));
  for (const auto& [name, value] : sum.attrs)
    graph.attrs(linear).Set(name, value);  // the Add's own activation
  Absorb(graph, linear, add);
  return true;
}

Result<int> Run(Graph& graph) {
  int changes = 0;
  const std::vector<size_t> ranks = Ranks(graph);
  for (NodeId id : NodesOf(graph)) {
    if (IsOp(graph, id, "Add")) changes += Fuse(graph, id, ranks);
  }
  return changes;
}

}  // namespace

extern const PassDef kFuseResidual = {
    .name = "fuse-residual",
    .doc = "Conv + other of the same shape becomes the convolution's residual input; MatMul alike.",
    .stage = Stage::kOptimize,
    .level = 2,
    .run = Run,
};

}  // namespace evoq
