// Operators that ask of each element whether it is one of some become comparisons and Where.
#include <algorithm>
#include <limits>

#include "passes/match.h"

namespace evoq {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// A NaN is not equal to itself.
bool LowerIsNaN(Graph& graph, NodeId id) {
  const Node node = graph.node(id);
  const ValueId x = node.input(0);
  if (!IsPlainFloat(graph, x)) return false;
  const ValueId same = graph.Apply("Equal", node.name + "_same", {x, x}),
                no = graph.AddConstant(node.name + "_no", Tensor::Scalar(false));
  ReplaceNode(graph, id, "Equal", "", {same, no});
  return true;
}

bool LowerNot(Graph& graph, NodeId id) {
  const Node node = graph.node(id);
  const ValueId no = graph.AddConstant(node.name + "_no", Tensor::Scalar(false));
  ReplaceNode(graph, id, "Equal", "", {node.input(0), no});
  return true;
}

bool LowerIsInf(Graph& graph, NodeId id) {
  const Node node = graph.node(id);
  const bool negative = node.attrs.Int("detect_negative", 1) != 0,
             positive = node.attrs.Int("detect_positive", 1) != 0;
  ValueId x = node.input(0);
  if (!IsPlainFloat(graph, x) || (!negative && !positive)) return false;
  if (negative && positive) x = graph.Apply("Abs", node.name + "_size", {x});
  ReplaceNode(graph, id, "Equal", "",
              {x, AddFloat(graph, node.name + "_infinity", positive ? kInfinity : -kInfinity)});
  return true;
}

// 1 where the place on the axis is that of ArgMax, which names the same one of equal elements and
// of NaNs.
bool LowerHardmax(Graph& graph, NodeId id) {
  const Node node = graph.node(id);
  const ValueId x = node.input(0);
  const TensorType type = graph.value(x).type;
  if (!IsPlainFloat(graph, x) || !IsPlainFloat(graph, node.outputs[0]) || !type.shape.ranked())
    return false;
  const auto axis = NormalizeAxis(node.attrs.Int("axis", -1), type.shape.rank());
  if (!axis || !type.shape[*axis].known() || type.shape[*axis].value == 0) return false;
  Attrs attrs;
  attrs.Set("axis", static_cast<int64_t>(*axis));
  attrs.Set("keepdims", int64_t{1});
  const ValueId best = graph.Apply("ArgMax", node.name + "_best", {x}, attrs);
  std::vector<int64_t> places(static_cast<size_t>(type.shape[*axis].value));
  for (size_t i = 0; i < places.size(); ++i) places[i] = static_cast<int64_t>(i);
  std::vector<Dim> dims(static_cast<size_t>(type.shape.rank() - *axis), Dim(1));
  dims[0] = type.shape[*axis];
  const ValueId all = graph.AddConstant(node.name + "_places",
                                        Tensor::FromValues(Shape(std::move(dims)), places)),
                is_best = graph.Apply("Equal", node.name + "_is_best", {best, all});
  ReplaceNode(graph, id, "Where", "",
              {is_best, AddFloat(graph, node.name + "_one", 1.0f),
               AddFloat(graph, node.name + "_zero", 0.0f)});
  return true;
}

std::vector<int32_t> Counted(int64_t count, int64_t first) {
  std::vector<int32_t> numbers;
  for (int64_t i = 0; i < count; ++i) numbers.push_back(static_cast<int32_t>(first + i));
  return numbers;
}

// Elements whose column is not less (upper) or not greater (lower) than their row + k.
bool LowerTrilu(Graph& graph, NodeId id) {
  const Node node = graph.node(id);
  const ValueId x = node.input(0);
  const TensorType type = graph.value(x).type;
  const int bits = DTypeBits(type.dtype), rank = type.shape.ranked() ? type.shape.rank() : 0;
  if (type.quantized() || graph.value(node.outputs[0]).type.quantized() || rank < 2 || bits < 8 ||
      type.dtype == DType::kString)
    return false;
  const Dim &rows = type.shape[rank - 2], &columns = type.shape[rank - 1];
  constexpr int64_t kMost = 1 << 20;
  if (!rows.known() || !columns.known() || rows.value > kMost || columns.value > kMost)
    return false;
  int64_t k = 0;
  if (node.input(1).valid()) {
    const auto given = IntsOf(graph, node.input(1));
    if (!given || given->size() != 1) return false;
    k = std::clamp((*given)[0], -rows.value - 1, columns.value + 1);
  }
  const ValueId column = graph.AddConstant(
      node.name + "_columns", Tensor::FromValues(Shape{columns.value}, Counted(columns.value, 0)));
  const ValueId row = graph.AddConstant(
      node.name + "_rows", Tensor::FromValues(Shape{rows.value, 1}, Counted(rows.value, k)));
  const bool upper = node.attrs.Int("upper", 1) != 0;
  const ValueId kept =
      graph.Apply(upper ? "GreaterOrEqual" : "LessOrEqual", node.name + "_kept", {column, row});
  const ValueId zero =
      graph.AddConstant(node.name + "_zero", Tensor::Allocate(TensorType(type.dtype, Shape{})));
  ReplaceNode(graph, id, "Where", "", {kept, x, zero});
  return true;
}

bool Rewrite(Graph& graph, NodeId id) {
  if (IsOp(graph, id, "IsNaN")) return LowerIsNaN(graph, id);
  if (IsOp(graph, id, "IsInf")) return LowerIsInf(graph, id);
  if (IsOp(graph, id, "Not")) return LowerNot(graph, id);
  if (IsOp(graph, id, "Hardmax")) return LowerHardmax(graph, id);
  if (IsOp(graph, id, "Trilu")) return LowerTrilu(graph, id);
  return false;
}

Result<int> Run(Graph& graph) { return CountChanges(graph, Rewrite); }

}  // namespace

extern const PassDef kLowerSelection;
const PassDef kLowerSelection = {
    .name = "lower-selection",
    .doc = "IsNaN, IsInf, Not, Hardmax and Trilu become comparisons and Where.",
    .stage = Stage::kLower,
    .level = 0,
    .run = Run,
};

}  // namespace evoq
