#include "passes/linear.h"
#include "passes/match.h"

namespace evoq {
namespace {

// `value` is ReduceMean of `of` over this axis alone, which stays as 1.
bool IsMean(const Graph& graph, ValueId value, ValueId of, int axis) {
  const NodeId mean = ProducedBy(graph, value, "ReduceMean");
  if (!mean.valid() || graph.node(mean).input(0) != of ||
      graph.node(mean).attrs.Int("keepdims", 1) == 0)
    return false;
  const auto axes = IntsOf(graph, graph.node(mean).input(1));
  const Shape& shape = graph.value(of).type.shape;
  return axes && axes->size() == 1 && shape.ranked() &&
         ((*axes)[0] == axis || (*axes)[0] == axis - shape.rank());
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
std::optional<float> DeviationEpsilon(const Graph& graph, ValueId value, ValueId d, int axis) {
  const NodeId root = ProducedBy(graph, value, "Sqrt");
  const NodeId sum = root.valid() ? ProducedBy(graph, graph.node(root).input(0), "Add") : NodeId{};
  if (!sum.valid()) return std::nullopt;
  for (size_t i = 0; i < 2; ++i) {
    const auto epsilon = ScalarOf(graph, graph.node(sum).input(1 - i));
    const NodeId mean = ProducedBy(graph, graph.node(sum).input(i), "ReduceMean");
    if (!epsilon || !mean.valid()) continue;
    const ValueId square = graph.node(mean).input(0);
    if (IsSquare(graph, square, d) && IsMean(graph, graph.node(sum).input(i), square, axis))
      return epsilon;
  }
  return std::nullopt;
}

// The only reader of the node when it is `op` with a constant per element of the axis: the constant
// as a vector.
ValueId FollowingVector(Graph& graph, NodeId id, const char* op, int axis, int64_t size) {
  const NodeId next = OnlyReader(graph, id);
  if (!IsOp(graph, next, op) || HasActivation(graph.node(next))) return {};
  const ValueId out = graph.node(id).outputs[0];
  const ValueId other = graph.node(next).input(graph.node(next).input(0) == out ? 1 : 0);
  const Tensor* tensor = FloatConstant(graph, other);
  const int rank = graph.value(out).type.shape.rank();
  if (tensor == nullptr || graph.value(graph.node(next).outputs[0]).type.shape.rank() != rank)
    return {};
  if (axis == rank - 1) return tensor->shape() == Shape{size} ? other : ValueId{};
  const auto values = PerChannel(graph, other, rank, axis, size);
  return values ? graph.AddConstant(graph.value(other).name + "_row",
                                    Tensor::FromValues(Shape{size}, *values))
                : ValueId{};
}

// d / sqrt(variance + epsilon), as a quotient or as a product with a reciprocal.
struct Normalized {
  ValueId d;
  float epsilon;
};

std::optional<Normalized> NormalizedOf(const Graph& graph, const Node& node, int axis) {
  if (node.op == "Div") {
    const auto epsilon = DeviationEpsilon(graph, node.input(1), node.input(0), axis);
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
    const auto epsilon = root.valid() ? DeviationEpsilon(graph, root, d, axis) : std::nullopt;
    if (epsilon) return Normalized{d, *epsilon};
  }
  return std::nullopt;
}

// x with its mean subtracted: the x; else an invalid id.
ValueId Centered(const Graph& graph, ValueId d, int axis) {
  const NodeId sub = ProducedBy(graph, d, "Sub");
  return sub.valid() && IsMean(graph, graph.node(sub).input(1), graph.node(sub).input(0), axis)
             ? graph.node(sub).input(0)
             : ValueId{};
}

// Over the last axis, or over channels on axis 1, which come last between Transposes.
bool FuseAlong(Graph& graph, NodeId id, int axis) {
  const auto normalized = NormalizedOf(graph, graph.node(id), axis);
  if (!normalized) return false;
  const ValueId centered = Centered(graph, normalized->d, axis),
                x = centered.valid() ? centered : normalized->d;
  const TensorType type = graph.value(x).type;
  if (type.dtype != DType::kFloat32) return false;
  const int rank = type.shape.rank();
  const Dim& size = type.shape[axis];
  if (!size.known()) return false;
  NodeId end = id;
  ValueId gamma = FollowingVector(graph, id, "Mul", axis, size.value), beta;
  if (gamma.valid()) {
    end = OnlyReader(graph, id);
    if (centered.valid()) beta = FollowingVector(graph, end, "Add", axis, size.value);
    if (beta.valid()) end = OnlyReader(graph, end);
  } else {
    gamma = graph.AddConstant(
        graph.node(id).name + "_scale",
        Tensor::FromValues(Shape{size.value}, std::vector<float>(size.value, 1.0f)));
  }
  Attrs attrs;
  attrs.Set("axis", -1);
  attrs.Set("epsilon", normalized->epsilon);
  std::vector<ValueId> inputs{x, gamma};
  if (beta.valid()) inputs.push_back(beta);
  const char* const op = centered.valid() ? "LayerNormalization" : "RMSNormalization";
  if (axis == rank - 1) {
    ReplaceNode(graph, end, op, "", std::move(inputs), attrs);
    return true;
  }
  const std::string name = graph.node(end).name;
  const Permutation perm = ChannelsLast(rank);
  inputs[0] = graph.Apply("Transpose", name + "_last", {x}, Attrs::Of("perm", perm));
  const ValueId y = graph.Apply(op, name + "_normalized", std::move(inputs), std::move(attrs));
  ReplaceNode(graph, end, "Transpose", "", {y}, Attrs::Of("perm", Inverse(perm)));
  return true;
}

bool Fuse(Graph& graph, NodeId id) {
  const Shape& shape = graph.value(graph.node(id).outputs[0]).type.shape;
  if (!shape.ranked() || shape.rank() == 0) return false;
  const int rank = shape.rank();
  return FuseAlong(graph, id, rank - 1) || (rank > 2 && FuseAlong(graph, id, 1));
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
        "(x - mean) / sqrt(variance + epsilon) * gamma + beta over the last axis, or over "
        "channels, "
        "becomes one LayerNormalization; without the mean, one RMSNormalization.",
    .stage = Stage::kOptimize,
    .level = 2,
    .run = Run,
};

}  // namespace evoq
