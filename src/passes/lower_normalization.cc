// Normalizations whose statistics span a contiguous part of an image become LayerNormalization,
// which has kernels; that over any axes becomes the means that define it.
#include <map>

#include "passes/match.h"

namespace evoq {
namespace {

// The product of the sizes [first, last), when all are known.
std::optional<int64_t> SizeOf(const Shape& shape, int first, int last) {
  int64_t size = 1;
  for (int i = first; i < last; ++i) {
    if (!shape[i].known()) return std::nullopt;
    size *= shape[i].value;
  }
  return size;
}

class Lowering {
 public:
  explicit Lowering(Graph& graph) : graph_(graph) {}

  bool Rewrite(NodeId id) {
    // A pass before has moved the channels: nothing here looks for them there.
    if (graph_.node(id).attrs.Int("channels_last") != 0) return false;
    return Groups(id) || GroupsWrittenOut(id) || MeanVariance(id) || LocalResponse(id);
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

  // (x - mean) / sqrt(var + epsilon) of each row.
  ValueId Normalized(const Node& node, ValueId rows, std::optional<int64_t> columns) {
    Attrs attrs;
    attrs.Set("axis", int64_t{-1});
    attrs.Set("epsilon", node.attrs.Float("epsilon", 1e-5f));
    return Apply(node, "LayerNormalization", "_normalized", {rows, Ones(node, rows, columns)},
                 std::move(attrs));
  }

  // A vector with an element for each channel, as it stands beside a value of `rank` axes with
  // channels on axis 1.
  ValueId PerChannel(const Node& node, const char* suffix, ValueId vector, int rank) {
    const Tensor* constant = FloatConstant(graph_, vector);
    if (constant != nullptr) {
      std::vector<Dim> dims(static_cast<size_t>(rank - 1), Dim(1));
      dims[0] = Dim(constant->elements());
      return graph_.AddConstant(node.name + suffix, constant->WithType(TensorType(
                                                        DType::kFloat32, Shape(std::move(dims)))));
    }
    if (rank == 2) return vector;
    std::vector<int64_t> axes;
    for (int i = 1; i < rank - 1; ++i) axes.push_back(i);
    return Apply(node, "Unsqueeze", suffix, {vector, AddInts(graph_, node.name + "_axes", axes)});
  }

  bool Groups(NodeId id) {
    if (!IsOp(graph_, id, "GroupNormalization")) return false;
    const Node node = graph_.node(id);
    const TensorType x = graph_.value(node.input(0)).type;
    for (ValueId value : {node.input(0), node.input(1), node.input(2), node.outputs[0]}) {
      if (!IsPlainFloat(graph_, value)) return false;
    }
    const int64_t groups = node.attrs.Int("num_groups");
    if (!x.shape.ranked() || x.shape.rank() < 2 || !x.shape[1].known() || groups < 1 ||
        x.shape[1].value == 0 || x.shape[1].value % groups != 0)
      return false;
    std::optional<int64_t> columns = SizeOf(x.shape, 1, x.shape.rank());
    if (columns) columns = *columns / groups;
    const ValueId rows = Apply(
        node, "Reshape", "_groups",
        {node.input(0), AddInts(graph_, node.name + "_rows", {0, groups, columns.value_or(-1)})});
    const ValueId normalized = Normalized(node, rows, columns);
    std::vector<int64_t> target{0};
    for (int i = 1; columns && i < x.shape.rank(); ++i) target.push_back(x.shape[i].value);
    const ValueId back = columns ? AddInts(graph_, node.name + "_back", target)
                                 : Apply(node, "Shape", "_back", {node.input(0)});
    const ValueId plain = Apply(node, "Reshape", "_plain", {normalized, back});
    const ValueId scale = PerChannel(node, "_scale", node.input(1), x.shape.rank());
    const ValueId scaled = Apply(node, "Mul", "_scaled", {plain, scale});
    ReplaceNode(graph_, id, "Add", "",
                {scaled, PerChannel(node, "_bias", node.input(2), x.shape.rank())});
    return true;
  }

  // What exporters write for GroupNormalization before it was an operator: an
  // InstanceNormalization of [N, G, L] between Reshapes. Others stay: beside convolutions the
  // kernel computes them channels-last.
  bool GroupsWrittenOut(NodeId id) {
    if (!IsOp(graph_, id, "InstanceNormalization")) return false;
    const Node node = graph_.node(id);
    const ValueId x = node.input(0);
    const Shape shape = graph_.value(x).type.shape;
    if (!IsPlainFloat(graph_, x) || !IsPlainFloat(graph_, node.outputs[0]) || !shape.ranked() ||
        shape.rank() != 3 || !ProducedBy(graph_, x, "Reshape").valid() ||
        !IsOp(graph_, OnlyReader(graph_, id), "Reshape") ||
        UniformOf(graph_, node.input(1)) != 1.0f || UniformOf(graph_, node.input(2)) != 0.0f)
      return false;
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
    .doc = "GroupNormalization and MeanVarianceNormalization become operators that have kernels.",
    .stage = Stage::kLower,
    .level = 0,
    .run = Run,
};

}  // namespace evoq
