// A table whose rows are looked up and which, transposed, is the weight of a product (a tied
// embedding) is stored once: as the weight, whose columns GatherColumns looks up.
#include <algorithm>

#include "passes/match.h"

namespace evoq {
namespace {

constexpr int kMostBits = 4;  // tables of integers of more have kernels of their own

bool IsMatrixOfFewBits(const TensorType& type) {
  return type.quantized() && type.shape.rank() == 2 &&
         (DTypeBits(type.dtype) <= kMostBits || IsTinyFloat(type.dtype));
}

// Whether the constant is a weight of few bits.
bool IsWeight(const Graph& graph, ValueId value) {
  const Value& v = graph.value(value);
  if (!v.is_constant() || !v.constant.layout().empty() || !IsMatrixOfFewBits(v.type)) return false;
  return std::ranges::any_of(v.users, [&](NodeId id) {
    const Node& node = graph.node(id);
    return IsLinear(node) && node.input(1) == value;
  });
}

// The weight that the node is the Transpose of, written as one or by its contents.
ValueId WeightBehind(const Graph& graph, ValueId table) {
  const NodeId transpose = ProducedBy(graph, table, "Transpose");
  if (transpose.valid()) {
    const ValueId w = graph.node(transpose).input(0);
    const auto perm = PermutationOf(graph, graph.node(transpose));
    return perm == Permutation{1, 0} && IsWeight(graph, w) ? w : ValueId();
  }
  const Value& t = graph.value(table);
  if (!t.is_constant() || !IsMatrixOfFewBits(t.type) || !CanPermute(t.constant)) return ValueId();
  const Permutation swap = {1, 0};
  const TensorType wanted = Permuted(t.type, swap);
  std::optional<Tensor> swapped;
  for (int i = 0; i < graph.value_count(); ++i) {
    const ValueId w{i};
    if (!IsWeight(graph, w) || graph.value(w).type != wanted) continue;
    if (!swapped) swapped = Permuted(t.constant, swap);
    if (BitEqual(*swapped, graph.value(w).constant)) return w;
  }
  return ValueId();
}

bool Share(Graph& graph, NodeId id) {
  if (!IsOp(graph, id, "Gather") || graph.node(id).attrs.Int("axis", 0) != 0) return false;
  if (graph.value(graph.node(id).outputs[0]).type.quantized()) return false;
  const ValueId w = WeightBehind(graph, graph.node(id).input(0));
  if (!w.valid()) return false;
  ReplaceNode(graph, id, "GatherColumns", "evoq", {w, graph.node(id).input(1)});
  return true;
}

Result<int> Run(Graph& graph) { return CountChanges(graph, Share); }

}  // namespace

extern const PassDef kShareTables = {
    .name = "share-tables",
    .doc =
        "A Gather of rows of a table of few bits that, transposed, is the weight of a product "
        "looks up columns of that weight.",
    .stage = Stage::kLower,
    .level = 1,
    .run = Run,
};

}  // namespace evoq
