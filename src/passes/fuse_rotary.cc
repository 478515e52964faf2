// x cos + rotate_half(x) sin, as exporters write a rotary embedding, becomes one RotaryEmbedding.
#include <algorithm>
#include <map>

#include "passes/match.h"
#include "passes/size_probe.h"

namespace evoq {
namespace {

bool IsFloatOfRank(const Graph& graph, ValueId value, int rank) {
  const Shape& shape = graph.value(value).type.shape;
  return IsPlainFloat(graph, value) && shape.ranked() && shape.rank() == rank;
}

bool IsLastAxis(const Graph& graph, ValueId value, int64_t axis) {
  const Shape& shape = graph.value(value).type.shape;
  return axis == -1 || (shape.ranked() && axis == shape.rank() - 1);
}

std::optional<int64_t> OneInt(const Graph& graph, ValueId value) {
  const auto ints = IntsOf(graph, value);
  return ints && ints->size() == 1 ? std::optional((*ints)[0]) : std::nullopt;
}

// Elements [begin, end) of the last axis of `of`, by a Slice or by a Split in two.
struct Part {
  ValueId of;
  int64_t begin = 0, end = 0;
};

std::optional<Part> PartOf(const Graph& graph, ValueId value) {
  const NodeId slice = ProducedBy(graph, value, "Slice"), split = ProducedBy(graph, value, "Split");
  const Shape& shape = graph.value(value).type.shape;
  if (!shape.ranked() || shape.rank() < 1 || !shape[shape.rank() - 1].known()) return std::nullopt;
  const int64_t size = shape[shape.rank() - 1].value;
  if (slice.valid()) {
    const Node& node = graph.node(slice);
    const auto begin = OneInt(graph, node.input(1)), axis = OneInt(graph, node.input(3));
    const auto step = node.input(4).valid() ? OneInt(graph, node.input(4)) : int64_t{1};
    if (!begin || *begin < 0 || !axis || step != 1 || !IsLastAxis(graph, value, *axis))
      return std::nullopt;
    return Part{node.input(0), *begin, *begin + size};
  }
  if (!split.valid() || graph.node(split).outputs.size() != 2 ||
      !IsLastAxis(graph, value, graph.node(split).attrs.Int("axis")))
    return std::nullopt;
  const Node& node = graph.node(split);
  const Shape& whole = graph.value(node.input(0)).type.shape;
  if (!whole.ranked() || !whole[whole.rank() - 1].known()) return std::nullopt;
  const int64_t all = whole[whole.rank() - 1].value;
  return value == node.outputs[0] ? Part{node.input(0), 0, size}
                                  : Part{node.input(0), all - size, all};
}

// (-second half, first half) of x: the x; else an invalid id.
ValueId HalvesRotated(const Graph& graph, ValueId value) {
  const NodeId concat = ProducedBy(graph, value, "Concat");
  if (!concat.valid() || graph.node(concat).inputs.size() != 2 ||
      !IsLastAxis(graph, value, graph.node(concat).attrs.Int("axis")))
    return {};
  const NodeId negated = ProducedBy(graph, graph.node(concat).input(0), "Neg");
  if (!negated.valid()) return {};
  const auto second = PartOf(graph, graph.node(negated).input(0)),
             first = PartOf(graph, graph.node(concat).input(1));
  if (!first || !second || first->of != second->of || first->begin != 0 ||
      second->begin != first->end || second->end != 2 * first->end)
    return {};
  const Shape& shape = graph.value(first->of).type.shape;
  const bool whole =
      shape.ranked() && shape.rank() == 4 && shape[3].known() && shape[3].value == second->end;
  return whole ? first->of : ValueId{};
}

// x cos + rotate_half(x) sin.
struct Rotation {
  ValueId x, cosines, sines;
};

std::optional<Rotation> RotationOf(const Graph& graph, const Node& sum) {
  for (size_t i = 0; i < 2; ++i) {
    const NodeId straight = ProducedBy(graph, sum.input(i), "Mul"),
                 turned = ProducedBy(graph, sum.input(1 - i), "Mul");
    if (!straight.valid() || !turned.valid()) continue;
    for (size_t j = 0; j < 2; ++j) {
      const ValueId x = HalvesRotated(graph, graph.node(turned).input(j));
      if (!x.valid()) continue;
      for (size_t k = 0; k < 2; ++k) {
        if (graph.node(straight).input(k) == x)
          return Rotation{x, graph.node(straight).input(1 - k), graph.node(turned).input(1 - j)};
      }
    }
  }
  return std::nullopt;
}

class RotaryFuser {
 public:
  explicit RotaryFuser(Graph& graph) : graph_(graph), probes_(graph) {}

  bool Fuse(NodeId id);

 private:
  // What RotaryEmbedding reads: rows for each token, or a table and the tokens' places.
  struct Angles {
    ValueId rows, places;
  };

  // [batch, 1, tokens, size] without the axis of 1: [batch, tokens, size]; else an invalid id.
  ValueId WithoutHeads(ValueId value);
  // The first half of the last axis of a value whose halves are equal; an invalid id where that is
  // not seen.
  ValueId HalfOf(ValueId value, int depth = 0);
  ValueId HalfTable(ValueId value);
  std::optional<Angles> AnglesOf(ValueId value, ValueId x);

  Graph& graph_;
  SizeProbes probes_;
  std::map<ValueId, ValueId> halves_;
};

ValueId RotaryFuser::WithoutHeads(ValueId value) {
  if (!IsFloatOfRank(graph_, value, 4)) return {};
  for (const char* op : {"Unsqueeze", "Reshape"}) {
    const NodeId id = ProducedBy(graph_, value, op);
    if (!id.valid() || !IsFloatOfRank(graph_, graph_.node(id).input(0), 3)) continue;
    const ValueId rows = graph_.node(id).input(0);
    const Dim& heads = graph_.value(value).type.shape[1];
    if (!heads.known() || heads.value != 1) continue;
    if (probes_.Same(rows, 0, value, 0) && probes_.Same(rows, 1, value, 2) &&
        probes_.Same(rows, 2, value, 3))
      return rows;
  }
  return {};
}

ValueId RotaryFuser::HalfOf(ValueId value, int depth) {
  if (const auto found = halves_.find(value); found != halves_.end()) return found->second;
  const NodeId id = graph_.value(value).producer;
  if (!graph_.alive(id) || depth > 8) return {};
  const Node node = graph_.node(id);
  const std::string name = node.name + "_half";
  ValueId half;
  if (IsOp(graph_, id, "Concat")) {
    const bool twice = node.inputs.size() == 2 && node.input(0) == node.input(1) &&
                       IsLastAxis(graph_, value, node.attrs.Int("axis"));
    if (twice) half = node.input(0);
  } else if (IsOp(graph_, id, "Cos") || IsOp(graph_, id, "Sin")) {
    const ValueId x = HalfOf(node.input(0), depth + 1);
    if (x.valid()) half = graph_.Apply(node.op, name, {x}, node.attrs, graph_.value(x).type);
  } else if (IsOp(graph_, id, "Mul") && !HasActivation(node)) {
    for (size_t i = 0; i < 2 && !half.valid(); ++i) {
      if (!ScalarOf(graph_, node.input(i))) continue;
      const ValueId x = HalfOf(node.input(1 - i), depth + 1);
      if (x.valid() && graph_.value(x).type.shape.rank() == graph_.value(value).type.shape.rank())
        half = graph_.Apply("Mul", name, {x, node.input(i)}, {}, graph_.value(x).type);
    }
  }
  return halves_[value] = half;
}

// The first half of the columns of a constant table whose halves are equal; of a Slice from its
// first row on, the whole table: rows behind the slice are not asked for.
ValueId RotaryFuser::HalfTable(ValueId value) {
  if (const auto found = halves_.find(value); found != halves_.end()) return found->second;
  ValueId from = value;
  if (const NodeId slice = ProducedBy(graph_, value, "Slice"); slice.valid()) {
    const Node& node = graph_.node(slice);
    if (OneInt(graph_, node.input(1)) != 0 || OneInt(graph_, node.input(3)) != 0 ||
        (node.input(4).valid() && OneInt(graph_, node.input(4)) != 1))
      return {};
    from = node.input(0);
  }
  const Tensor* table = FloatConstant(graph_, from);
  if (table == nullptr || table->shape().rank() != 2 || table->sizes()[1] % 2 != 0) return {};
  const int64_t rows = table->sizes()[0], size = table->sizes()[1], half = size / 2;
  Tensor narrow = Tensor::Allocate(TensorType(DType::kFloat32, Shape{rows, half}));
  for (int64_t r = 0; r < rows; ++r) {
    const float* const row = table->data<float>() + r * size;
    if (!std::equal(row, row + half, row + half)) return {};
    std::copy_n(row, half, narrow.mutable_data<float>() + r * half);
  }
  return halves_[value] = graph_.AddConstant(graph_.value(from).name + "_half", std::move(narrow));
}

std::optional<RotaryFuser::Angles> RotaryFuser::AnglesOf(ValueId value, ValueId x) {
  const ValueId rows = WithoutHeads(value);
  if (!rows.valid() || !probes_.Same(rows, 1, x, 2) || !probes_.Same(rows, 2, x, 3))
    return std::nullopt;
  const bool every = probes_.Same(rows, 0, x, 0);  // an item of the batch has angles of its own
  if (const NodeId gather = ProducedBy(graph_, rows, "Gather");
      gather.valid() && graph_.node(gather).attrs.Int("axis") == 0 && every) {
    const ValueId places = graph_.node(gather).input(1), table = graph_.node(gather).input(0);
    const Shape& shape = graph_.value(places).type.shape;
    if (shape.ranked() && shape.rank() == 2) {
      const ValueId half = HalfTable(table);
      if (half.valid()) return Angles{half, places};
    }
  }
  const Dim& batch = graph_.value(rows).type.shape[0];
  if (!every && (!batch.known() || batch.value != 1)) return std::nullopt;
  ValueId half = HalfOf(rows);
  if (!half.valid()) return std::nullopt;
  if (!every) {
    const std::string name = graph_.value(half).name + "_each";
    Attrs first;
    first.Set("start", 0);
    first.Set("end", 1);
    const ValueId count = graph_.Apply("Shape", name + "_batch", {x}, std::move(first));
    Attrs axis;
    axis.Set("axis", 0);
    const ValueId shape = graph_.Apply("Concat", name + "_shape",
                                       {count, AddInts(graph_, name + "_ones", {1, 1})}, axis);
    half = graph_.Apply("Expand", name, {half, shape});
  }
  return Angles{half, {}};
}

bool RotaryFuser::Fuse(NodeId id) {
  if (!IsOp(graph_, id, "Add") || HasActivation(graph_.node(id)) ||
      !IsFloatOfRank(graph_, graph_.node(id).outputs[0], 4))
    return false;
  const auto rotation = RotationOf(graph_, graph_.node(id));
  if (!rotation || !IsFloatOfRank(graph_, rotation->x, 4)) return false;
  const auto cosines = AnglesOf(rotation->cosines, rotation->x),
             sines = AnglesOf(rotation->sines, rotation->x);
  if (!cosines || !sines || cosines->places != sines->places) return false;
  std::vector<ValueId> inputs = {rotation->x, cosines->rows, sines->rows};
  if (cosines->places.valid()) inputs.push_back(cosines->places);
  ReplaceNode(graph_, id, "RotaryEmbedding", "", std::move(inputs));
  return true;
}

Result<int> Run(Graph& graph) {
  RotaryFuser fuser(graph);
  return CountChanges(graph, [&](Graph&, NodeId id) { return fuser.Fuse(id); });
}

}  // namespace

extern const PassDef kFuseRotary = {
    .name = "fuse-rotary",
    .doc = "x cos + rotate_half(x) sin becomes one RotaryEmbedding.",
    .stage = Stage::kOptimize,
    .level = 2,
    .run = Run,
};

}  // namespace evoq
