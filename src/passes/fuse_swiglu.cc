#include "passes/match.h"

namespace evoq {
namespace {

// Silu(a) * b, where nothing else reads the Silu.
bool Fuse(Graph& graph, NodeId id) {
  if (!IsOp(graph, id, "Mul") || HasActivation(graph.node(id))) return false;
  const TensorType& type = graph.value(graph.node(id).outputs[0]).type;
  if (type.dtype != DType::kFloat32 || type.quantized()) return false;
  for (size_t i = 0; i < 2; ++i) {
    const ValueId gate = graph.node(id).input(i), b = graph.node(id).input(1 - i);
    const NodeId silu = ProducedBy(graph, gate, "Silu", "evoq");
    if (!silu.valid() || !graph.OnlyUser(gate).valid()) continue;
    const ValueId a = graph.node(silu).input(0);
    const TensorType &at = graph.value(a).type, &bt = graph.value(b).type;
    if (at.dtype != DType::kFloat32 || bt.dtype != DType::kFloat32 || at.quantized() ||
        bt.quantized() || graph.value(gate).type.quantized() || !SameShape(at.shape, bt.shape))
      continue;
    ReplaceNode(graph, id, "SwiGLU", "", {a, b});
    return true;
  }
  return false;
}

Result<int> Run(Graph& graph) { return CountChanges(graph, Fuse); }

}  // namespace

extern const PassDef kFuseSwiglu = {
    .name = "fuse-swiglu",
    .doc = "Silu(a) * b becomes one SwiGLU.",
    .stage = Stage::kLower,
    .level = 3,
    .run = Run,
};

}  // namespace evoq
