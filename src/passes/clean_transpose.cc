#include "passes/clean.h"
#include "reference/util.h"

namespace evoq {
namespace {

// Transpose(Transpose(x)) -> Transpose(x), or x.
bool Join(Graph& graph, NodeId id) {
  const NodeId before = ProducedBy(graph, graph.node(id).input(0), "Transpose");
  if (!before.valid()) return false;
  const auto first = PermutationOf(graph, graph.node(before)),
             second = PermutationOf(graph, graph.node(id));
  const ValueId x = graph.node(before).input(0), middle = graph.node(id).input(0),
                out = graph.node(id).outputs[0];
  const bool quantized = graph.value(x).type.quantized();
  if (!first || !second || quantized != graph.value(out).type.quantized()) return false;
  if (quantized && (!SameQuant(graph.value(x).type, graph.value(out).type) ||
                    !SameQuant(graph.value(x).type, graph.value(middle).type)))
    return false;
  const Permutation both = Compose(*first, *second);
  if (IsIdentity(both) && ReplaceOutput(graph, id, x)) {
    graph.RemoveNode(id);
    return true;
  }
  graph.attrs(id).Set("perm", both);
  graph.SetInput(id, 0, x);
  return true;
}

// A Transpose that moves no byte is a Reshape.
bool MakeView(Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  const auto perm = PermutationOf(graph, node);
  const Shape shape = graph.value(node.input(0)).type.shape;
  if (!perm || IsIdentity(*perm) || !MovesNothing(shape, *perm)) return false;
  const auto target = ReshapeTarget(shape, Permuted(shape, *perm));
  if (!target) return false;
  const ValueId x = node.input(0), target_value = AddInts(graph, node.name + "_shape", *target);
  ReplaceNode(graph, id, "Reshape", "", {x, target_value});
  return true;
}

}  // namespace

int JoinTransposes(Graph& graph) {
  int changes = 0;
  for (NodeId id : NodesOf(graph)) {
    if (IsOp(graph, id, "Transpose") && Join(graph, id)) ++changes;
    if (IsOp(graph, id, "Transpose") && MakeView(graph, id)) ++changes;
  }
  return changes;
}

namespace {
Result<int> Run(Graph& graph) { return JoinTransposes(graph); }
}  // namespace

extern const PassDef kCleanTranspose = {
    .name = "clean-transpose",
    .doc =
        "Two Transposes in a row become one; one that moves only dimensions of size 1 becomes a "
        "Reshape.",
    .stage = Stage::kOptimize,
    .level = 1,
    .run = Run,
};

}  // namespace evoq
