#include "passes/match.h"

namespace evoq {
namespace {

// `value` is ReduceMean of `of` over its last axis, which stays as 1.
bool IsLastMean(const Graph& graph, ValueId value, ValueId of) {
  const NodeId mean = ProducedBy(graph, value, "ReduceMean");
  if (!mean.valid() || graph.node(mean).input(0) != of ||
      graph.node(mean).attrs.Int("keepdims", 1) == 0)
    return false;
  const auto axes = IntsOf(graph, graph.node(mean).input(1));
  const Shape& shape = graph.value(of).type.shape;
  return axes && axes->size() == 1 && shape.ranked() &&
         ((*axes)[0] == -1 || (*axes)[0] == shape.rank() - 1);
}

// `value` is d * d.
bool IsSquare(const Graph& graph, ValueId value, ValueId d) {
  const NodeId mul = ProducedBy(graph, value, "Mul");
  if (mul.valid()) return graph.node(mul).input(0) == d && graph.node(mul).input(1) == d;
  const NodeId pow = ProducedBy(graph, value, "Pow");
  return pow.valid() && graph.node(pow).input(0) == d &&
         ScalarOf(graph, graph.node(pow).input(1)) == 2.0f;
}

// The epsilon of Sqrt(ReduceMean(d * d) + epsilon), or nothing.
std::optional<float> DeviationEpsilon(const Graph& graph, ValueId value, ValueId d) {
  const NodeId root = ProducedBy(graph, value, "Sqrt");
  const NodeId sum = root.valid() ? ProducedBy(graph, graph.node(root).input(0), "Add") : NodeId{};
  if (!sum.valid()) return std::nullopt;
  for (size_t i = 0; i < 2; ++i) {
    const auto epsilon = ScalarOf(graph, graph.node(sum).input(1 - i));
    const NodeId mean = ProducedBy(graph, graph.node(sum).input(i), "ReduceMean");
    if (!epsilon || !mean.valid()) continue;
    const ValueId square = graph.node(mean).input(0);
    if (IsSquare(graph, square, d) && IsLastMean(graph, graph.node(sum).input(i), square))
      return epsilon;
  }
  return std::nullopt;
}

// The only reader of the node when it is `op` with a constant of shape [size]: the constant.
ValueId FollowingVector(const Graph& graph, NodeId id, const char* op, int64_t size) {
  const NodeId next = OnlyReader(graph, id);
  if (!IsOp(graph, next, op) || HasActivation(graph.node(next))) return {};
  const ValueId out = graph.node(id).outputs[0];
  const ValueId other = graph.node(next).input(graph.node(next).input(0) == out ? 1 : 0);
  const Tensor* tensor = FloatConstant(graph, other);
  return tensor != nullptr && tensor->shape() == Shape{size} ? other : ValueId{};
}

// d / sqrt(variance + epsilon), as a quotient or as a product with a reciprocal.
struct Normalized {
  ValueId d;
  float epsilon;
};

std::optional<Normalized> NormalizedOf(const Graph& graph, const Node& node) {
  if (node.op == "Div") {
    const auto epsilon = DeviationEpsilon(graph, node.input(1), node.input(0));
    return epsilon ? std::optional(Normalized{node.input(0), *epsilon}) : std::nullopt;
  }
  for (size_t i = 0; i < 2; ++i) {
    const ValueId d = node.input(i), inverse = node.input(1 - i);
    const NodeId reciprocal = ProducedBy(graph, inverse, "Reciprocal"),
                 quotient = ProducedBy(graph, inverse, "Div");
    ValueId root;
    if (reciprocal.valid()) root = graph.node(reciprocal).input(0);
    if (quotient.valid() && ScalarOf(graph, graph.node(quotient).input(0)) == 1.0f)
      root = graph.node(quotient).input(1);
    const auto epsilon = root.valid() ? DeviationEpsilon(graph, root, d) : std::nullopt;
    if (epsilon) return Normalized{d, *epsilon};
  }
  return std::nullopt;
}

// x with its mean subtracted: the x; else an invalid id.
ValueId Centered(const Graph& graph, ValueId d) {
  const NodeId sub = ProducedBy(graph, d, "Sub");
  return sub.valid() && IsLastMean(graph, graph.node(sub).input(1), graph.node(sub).input(0))
             ? graph.node(sub).input(0)
             : ValueId{};
}

bool Fuse(Graph& graph, NodeId id) {
  const auto normalized = NormalizedOf(graph, graph.node(id));
  if (!normalized) return false;
  const ValueId centered = Centered(graph, normalized->d),
                x = centered.valid() ? centered : normalized->d;
  const TensorType type = graph.value(x).type;
  if (type.dtype != DType::kFloat32) return false;
  const Dim& last = type.shape[type.shape.rank() - 1];
  if (!last.known()) return false;
  NodeId end = id;
  ValueId gamma = FollowingVector(graph, id, "Mul", last.value), beta;
  if (gamma.valid()) {
    end = OnlyReader(graph, id);
    if (centered.valid()) beta = FollowingVector(graph, end, "Add", last.value);
    if (beta.valid()) end = OnlyReader(graph, end);
  } else {
    gamma = graph.AddConstant(
        graph.node(id).name + "_scale",
        Tensor::FromValues(Shape{last.value}, std::vector<float>(last.value, 1.0f)));
  }
  Attrs attrs;
  attrs.Set("axis", -1);
  attrs.Set("epsilon", normalized->epsilon);
  std::vector<ValueId> inputs{x, gamma};
  if (beta.valid()) inputs.push_back(beta);
  ReplaceNode(graph, end, centered.valid() ? "LayerNormalization" : "RMSNormalization", "",
              std::move(inputs), attrs);
  return true;
}

Result<int> Run(Graph& graph) {
  int changes = 0;
  for (NodeId id : NodesOf(graph)) {
    if (IsOp(graph, id, "Div") || IsOp(graph, id, "Mul")) changes += Fuse(graph, id);
  }
  return changes;
}

}  // namespace

extern const PassDef kFuseLayerNorm = {
    .name = "fuse-layer-norm",
    .doc =
        "(x - mean) / sqrt(variance + epsilon) * gamma + beta over the last axis becomes one "
        "LayerNormalization; without the mean, one RMSNormalization.",
    .stage = Stage::kOptimize,
    .level = 2,
    .run = Run,
};

}  // namespace evoq
