#include "passes/widen.h"

#include <algorithm>

#include "base/budget_scope.h"
#include "passes/match.h"
#include "tensor/spilled.h"

namespace evoq {
namespace {

bool Is16BitFloat(const Value& value) {
  return value.is_constant() && value.constant.layout().empty() &&
         (value.type.dtype == DType::kFloat16 || value.type.dtype == DType::kBfloat16);
}

// y[column, row] = x[row, column], in tiles that caches hold.
template <typename Convert>
void Transposed(const uint16_t* x, int64_t rows, int64_t columns, float* y, const Convert& widen) {
  constexpr int64_t kTile = 32;
  for (int64_t r0 = 0; r0 < rows; r0 += kTile) {
    const int64_t r1 = std::min(r0 + kTile, rows);
    for (int64_t c0 = 0; c0 < columns; c0 += kTile) {
      const int64_t c1 = std::min(c0 + kTile, columns);
      for (int64_t c = c0; c < c1; ++c) {
        for (int64_t r = r0; r < r1; ++r) y[c * rows + r] = widen(x[r * columns + c]);
      }
    }
  }
}

Result<Tensor> Widened(const Tensor& narrow, bool transposed) {
  EVOQ_TRY(SpendMemory(narrow.elements() * 4, "a weight in float32"));
  if (!transposed) return ToFloat32(narrow);
  const std::vector<int64_t> sizes = narrow.sizes();
  Tensor wide = Tensor::Allocate(TensorType(DType::kFloat32, Shape{sizes[1], sizes[0]}));
  const auto* x = narrow.data<uint16_t>();
  auto* y = wide.mutable_data<float>();
  if (narrow.dtype() == DType::kFloat16) {
    Transposed(x, sizes[0], sizes[1], y, HalfToFloat);
  } else {
    Transposed(x, sizes[0], sizes[1], y, Bfloat16ToFloat);
  }
  return wide;
}

// What nodes of one operator compute.
Result<int> WidenAll(Graph& graph, std::string_view op) {
  int changes = 0;
  for (NodeId id : NodesOf(graph)) {
    if (!IsOp(graph, id, op)) continue;
    EVOQ_ASSIGN(const bool widened, WidenConstant(graph, graph.node(id).outputs[0]));
    changes += widened;
  }
  return changes;
}

Result<int> Run(Graph& graph) {
  // Transposes first: a Cast that only one reads needs no result of its own.
  EVOQ_ASSIGN(const int transposed, WidenAll(graph, "Transpose"));
  EVOQ_ASSIGN(const int widened, WidenAll(graph, "Cast"));
  return transposed + widened;
}

}  // namespace

Result<bool> WidenConstant(Graph& graph, ValueId value) {
  if (!value.valid() || graph.IsOutput(value)) return false;
  ValueId cast_to = value;
  const NodeId transpose = ProducedBy(graph, value, "Transpose");
  if (transpose.valid()) {
    const std::vector<int64_t> perm = graph.node(transpose).attrs.Ints("perm", {1, 0});
    if (perm != std::vector<int64_t>{1, 0}) return false;
    cast_to = graph.node(transpose).input(0);
  }
  const NodeId cast = ProducedBy(graph, cast_to, "Cast");
  if (!cast.valid() || graph.IsOutput(cast_to)) return false;
  const Node& node = graph.node(cast);
  const Value& narrow = graph.value(node.input(0));
  if (!Is16BitFloat(narrow) || graph.value(cast_to).type.dtype != DType::kFloat32) return false;
  if (transpose.valid() && narrow.type.shape.rank() != 2) return false;
  EVOQ_ASSIGN(Tensor wide, WithContext(Widened(narrow.constant, transpose.valid()), narrow.name));
  ReleasePages(narrow.constant);
  graph.RemoveNode(transpose.valid() ? transpose : cast);
  graph.SetConstant(value, Spilled(std::move(wide)));
  if (transpose.valid() && graph.value(cast_to).users.empty()) graph.RemoveNode(cast);
  return true;
}

void DropUnread(Graph& graph, ValueId value) {
  if (graph.value(value).is_constant() && graph.value(value).users.empty() &&
      !graph.IsOutput(value))
    graph.SetConstant(value, Tensor());
}

extern const PassDef kWidenConstants;

Status WidenConstants(Graph& graph) {
  EVOQ_TRY(RunPass(graph, kWidenConstants));
  return {};
}

extern const PassDef kWidenConstants = {
    .name = "widen-constants",
    .doc = "Constants of 16 bits that are read as float32 become float32.",
    .stage = Stage::kLower,
    .level = 0,
    .run = Run,
};

}  // namespace evoq
