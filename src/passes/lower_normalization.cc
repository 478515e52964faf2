// Group normalizations that are written out become the operator, which has a kernel; a
// normalization over any axes becomes the means that define it.
#include <map>

#include "passes/linear.h"
#include "passes/match.h"

namespace evoq {
namespace {

class Lowering {
 public:
  explicit Lowering(Graph& graph) : graph_(graph) {}

  bool Rewrite(NodeId id) {
    // A pass before has moved the channels: nothing here looks for them there.
    if (graph_.node(id).attrs.Int("channels_last") != 0) return false;
    return GroupsWrittenOut(id) || MeanVariance(id) || LocalResponse(id);
  }

 private:
  ValueId Apply(const Node& node, const char* op, const char* suffix, std::vector<ValueId> inputs,
                Attrs attrs = {}) {
    return graph_.Apply(op, node.name + suffix, std::move(inputs), std::move(attrs));
  }

  // As many as `rows`, a value [N, G, L], has columns: one constant for all rows of a size.
  ValueId Ones(const Node& node, ValueId rows, std::optional<int64_t> columns) {
    if (!columns) {
      const ValueId size = Apply(node, "Shape", "_size", {rows}, Attrs::Of("start", int64_t{2}));
      return Apply(node, "Expand", "_ones", {AddFloat(graph_, node.name + "_one", 1.0f), size});
    }
    ValueId& ones = ones_[*columns];
    if (!ones.valid())
      ones = graph_.AddConstant(
          fmt::format("ones_{}", *columns),
          Tensor::FromValues(Shape{*columns},
                             std::vector<float>(static_cast<size_t>(*columns), 1.0f)));
    return ones;
  }

  // A constant vector.
  ValueId Vector(const Node& node, const char* suffix, const std::vector<float>& values) {
    return graph_.AddConstant(
        node.name + suffix, Tensor::FromValues(Shape{static_cast<int64_t>(values.size())}, values));
  }

  // The constants per channel that the only reader `op` of the node joins with it, and `node`
  // becomes that reader.
  std::optional<std::vector<float>> Absorbed(const char* op, NodeId& node, int rank,
                                             int64_t channels) {
    const NodeId reader = OnlyReader(graph_, node);
    if (!IsOp(graph_, reader, op) || !IsPlainFloat(graph_, graph_.node(reader).outputs[0]))
      return std::nullopt;
    const Node& next = graph_.node(reader);
    if (HasActivation(next)) return std::nullopt;
    const ValueId other = next.input(next.input(0) == graph_.node(node).outputs[0] ? 1 : 0);
    auto values = PerChannel(graph_, other, rank, 1, channels);
    if (values && SameShape(graph_.value(next.outputs[0]).type.shape,
                            graph_.value(graph_.node(node).outputs[0]).type.shape)) {
      node = reader;
      return values;
    }
    return std::nullopt;
  }

  // What exporters write for GroupNormalization before it was an operator: an
  // InstanceNormalization of [N, G, L] between Reshapes, and a Mul and an Add per channel. Others
  // stay: beside convolutions the kernel computes them channels-last.
  bool GroupsWrittenOut(NodeId id) {
    if (!IsOp(graph_, id, "InstanceNormalization")) return false;
    const Node node = graph_.node(id);
    const ValueId x = node.input(0);
    const Shape shape = graph_.value(x).type.shape;
    const NodeId before = ProducedBy(graph_, x, "Reshape");
    NodeId last = OnlyReader(graph_, id);
    if (!IsPlainFloat(graph_, x) || !IsPlainFloat(graph_, node.outputs[0]) || !shape.ranked() ||
        shape.rank() != 3 || !before.valid() || !IsOp(graph_, last, "Reshape") ||
        UniformOf(graph_, node.input(1)) != 1.0f || UniformOf(graph_, node.input(2)) != 0.0f)
      return false;
    const ValueId image = graph_.node(before).input(0);
    const Shape whole = graph_.value(image).type.shape;
    if (whole.ranked() && whole.rank() > 2 && whole[1].known() && shape[1].known() &&
        shape[1].value > 0 && whole[1].value % shape[1].value == 0 && SameDim(whole[0], shape[0]) &&
        SameShape(whole, graph_.value(graph_.node(last).outputs[0]).type.shape)) {
      const int64_t channels = whole[1].value;
      const std::vector<float> ones(static_cast<size_t>(channels), 1.0f), zeros(ones.size(), 0.0f);
      const auto scale = Absorbed("Mul", last, whole.rank(), channels);
      const auto bias = Absorbed("Add", last, whole.rank(), channels);
      Attrs attrs = Attrs::Of("num_groups", shape[1].value);
      attrs.Set("epsilon", node.attrs.Float("epsilon", 1e-5f));
      ReplaceNode(graph_, last, "GroupNormalization", "",
                  {image, Vector(node, "_scale", scale.value_or(ones)),
                   Vector(node, "_bias", bias.value_or(zeros))},
                  std::move(attrs));
      return true;
    }
    std::optional<int64_t> columns;
    if (shape[2].known()) columns = shape[2].value;
    Attrs attrs;
    attrs.Set("axis", int64_t{-1});
    attrs.Set("epsilon", node.attrs.Float("epsilon", 1e-5f));
    ReplaceNode(graph_, id, "LayerNormalization", "", {x, Ones(node, x, columns)},
                std::move(attrs));
    return true;
  }

  bool MeanVariance(NodeId id) {
    if (!IsOp(graph_, id, "MeanVarianceNormalization")) return false;
    const Node node = graph_.node(id);
    const ValueId x = node.input(0);
    if (!IsPlainFloat(graph_, x) || !IsPlainFloat(graph_, node.outputs[0])) return false;
    const ValueId axes = AddInts(graph_, node.name + "_axes", node.attrs.Ints("axes", {0, 2, 3}));
    const Attrs keep = Attrs::Of("keepdims", int64_t{1});
    const ValueId mean = Apply(node, "ReduceMean", "_mean", {x, axes}, keep),
                  centered = Apply(node, "Sub", "_centered", {x, mean}),
                  squares = Apply(node, "Mul", "_squares", {centered, centered}),
                  variance = Apply(node, "ReduceMean", "_variance", {squares, axes}, keep),
                  root = Apply(node, "Sqrt", "_root", {variance}),
                  deviation = Apply(node, "Add", "_deviation",
                                    {root, AddFloat(graph_, node.name + "_least", 1e-9f)});
    ReplaceNode(graph_, id, "Div", "", {centered, deviation});
    return true;
  }

  // x / (bias + alpha * mean)^beta, with the mean of the squares of `size` channels: an AveragePool
  // along channels, to which those of a pixel are an image of one axis.
  bool LocalResponse(NodeId id) {
    if (!IsOp(graph_, id, "LRN")) return false;
    const Node node = graph_.node(id);
    const ValueId x = node.input(0);
    const Shape shape = graph_.value(x).type.shape;
    const int64_t size = node.attrs.Int("size"), before = (size - 1) / 2;
    if (!IsPlainFloat(graph_, x) || !IsPlainFloat(graph_, node.outputs[0]) || !shape.ranked() ||
        shape.rank() < 2 || size < 1)
      return false;
    Attrs swap, window;
    swap.Set("perm", std::vector<int64_t>{0, 2, 1});
    window.Set("kernel_shape", std::vector<int64_t>{size});
    window.Set("pads", std::vector<int64_t>{before, size - 1 - before});
    window.Set("count_include_pad", int64_t{1});
    const ValueId squares = Apply(node, "Mul", "_squares", {x, x}),
                  planes = Apply(node, "Reshape", "_planes",
                                 {squares, AddInts(graph_, node.name + "_rows", {0, 0, -1})}),
                  pixels = Apply(node, "Transpose", "_pixels", {planes}, swap),
                  means = Apply(node, "AveragePool", "_means", {pixels}, window),
                  back = Apply(node, "Transpose", "_back", {means}, swap);
    const auto target = ReshapeTarget(graph_.value(back).type.shape, shape);
    const ValueId sizes = target ? AddInts(graph_, node.name + "_sizes", *target)
                                 : Apply(node, "Shape", "_sizes", {x}),
                  mean = Apply(node, "Reshape", "_mean", {back, sizes}),
                  scaled = Apply(node, "Mul", "_scaled",
                                 {mean, AddFloat(graph_, node.name + "_alpha",
                                                 node.attrs.Float("alpha", 1e-4f))}),
                  moved = Apply(node, "Add", "_moved",
                                {scaled, AddFloat(graph_, node.name + "_bias",
                                                  node.attrs.Float("bias", 1.0f))}),
                  power = Apply(node, "Pow", "_power",
                                {moved, AddFloat(graph_, node.name + "_beta",
                                                 node.attrs.Float("beta", 0.75f))});
    ReplaceNode(graph_, id, "Div", "", {x, power});
    return true;
  }

  Graph& graph_;
  std::map<int64_t, ValueId> ones_;
};

Result<int> Run(Graph& graph) {
  Lowering lowering(graph);
  return CountChanges(graph, [&](Graph&, NodeId id) { return lowering.Rewrite(id); });
}

}  // namespace

extern const PassDef kLowerNormalization;
const PassDef kLowerNormalization = {
    .name = "lower-normalization",
    .doc =
        "Normalizations of groups that are written out, MeanVarianceNormalization and LRN become "
        "operators that have kernels.",
    .stage = Stage::kLower,
    .level = 0,
    .run = Run,
};

}  // namespace evoq
