// Bytes that are transposed and then dequantized: one pass over them, with the floats written once.
#include "passes/match.h"

namespace evoq {
namespace {

bool Fuse(Graph& graph, NodeId id) {
  if (!IsOp(graph, id, "Transpose")) return false;
  const NodeId next = OnlyReader(graph, id);
  if (!IsOp(graph, next, "DequantizeLinear") || graph.node(next).inputs.size() != 1) return false;
  if (!IsByteQuantized(graph.value(graph.node(id).input(0)).type)) return false;
  if (graph.value(graph.node(next).outputs[0]).type.dtype != DType::kFloat32) return false;
  const ValueId x = graph.node(id).input(0);
  ReplaceNode(graph, next, "DequantizeTranspose", "evoq", {x}, graph.node(id).attrs);
  return true;
}

Result<int> Run(Graph& graph) { return CountChanges(graph, Fuse); }

}  // namespace

extern const PassDef kFuseDequantize;
const PassDef kFuseDequantize = {
    .name = "fuse-dequantize",
    .doc =
        "A Transpose of bytes that only a DequantizeLinear reads writes the float32 values itself.",
    .stage = Stage::kLower,
    .level = 2,
    .run = Run,
};

}  // namespace evoq
