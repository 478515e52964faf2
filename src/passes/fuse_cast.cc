// A linear operator on bfloat16 sums in float32: where its only reader wants float32, it writes
// that, unrounded.
#include "passes/match.h"

namespace evoq {
namespace {

bool Fuse(Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  if (!IsLinear(node) || graph.value(node.input(0)).type.dtype != DType::kBfloat16) return false;
  const NodeId next = OnlyReader(graph, id);
  if (!IsOp(graph, next, "Cast") ||
      graph.value(graph.node(next).outputs[0]).type.dtype != DType::kFloat32)
    return false;
  graph.attrs(id).Set("output_dtype", static_cast<int64_t>(DType::kFloat32));
  Absorb(graph, id, next);
  return true;
}

Result<int> Run(Graph& graph) { return CountChanges(graph, Fuse); }

}  // namespace

extern const PassDef kFuseCast = {
    .name = "fuse-cast",
    .doc =
        "A linear operator on bfloat16 that only a Cast to float32 reads gives its float32 sums "
        "unrounded.",
    .stage = Stage::kLower,
    .level = 2,
    .run = Run,
};

}  // namespace evoq
