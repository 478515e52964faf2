// Attention takes float16 keys and values beside float32 queries: a cache in float16 need not be
// widened as a whole in front of it, nor written again where nothing reads it.
#include "kernels/attention/attention_inputs.h"
#include "passes/match.h"

namespace evoq {
namespace {

// The float16 value that `value` is, widened to float32; else an invalid id.
ValueId Narrow(const Graph& graph, ValueId value) {
  const NodeId cast = ProducedBy(graph, value, "Cast");
  if (!cast.valid() || graph.value(value).type.dtype != DType::kFloat32) return {};
  const ValueId from = graph.node(cast).input(0);
  const TensorType& type = graph.value(from).type;
  return type.dtype == DType::kFloat16 && !type.quantized() ? from : ValueId{};
}

bool IsRead(const Graph& graph, ValueId value) {
  return graph.IsOutput(value) || !graph.value(value).users.empty();
}

// `now` and `past` are inputs of keys, or of values; output `present` would change its type.
bool FuseOf(Graph& graph, NodeId id, size_t now, size_t past, size_t present) {
  const Node& node = graph.node(id);
  const ValueId narrow = Narrow(graph, node.input(now));
  ValueId narrow_past;
  if (node.input(past).valid()) narrow_past = Narrow(graph, node.input(past));
  if (!narrow.valid() || narrow_past.valid() != node.input(past).valid()) return false;
  if (present < node.outputs.size() && node.outputs[present].valid()) return false;
  graph.SetInput(id, now, narrow);
  if (narrow_past.valid()) graph.SetInput(id, past, narrow_past);
  return true;
}

// The node without those of its outputs, but the first, that nothing reads; `id` where all stay.
NodeId WithoutUnread(Graph& graph, NodeId id) {
  Node node = graph.node(id);
  for (size_t i = 1; i < node.outputs.size(); ++i) {
    if (node.outputs[i].valid() && !IsRead(graph, node.outputs[i])) node.outputs[i] = ValueId{};
  }
  if (node.outputs == graph.node(id).outputs) return id;
  graph.RemoveNode(id);
  while (!node.outputs.back().valid()) node.outputs.pop_back();
  return graph.AddNode(std::move(node));
}

bool Fuse(Graph& graph, NodeId before) {
  if (!IsOp(graph, before, "Attention") || !graph.node(before).outputs[0].valid()) return false;
  const NodeId id = WithoutUnread(graph, before);
  const TensorType& q = graph.value(graph.node(id).input(kQ)).type;
  if (q.dtype != DType::kFloat32 || q.quantized()) return id != before;
  const bool keys = FuseOf(graph, id, kK, kPastKey, 1);
  const bool values = FuseOf(graph, id, kV, kPastValue, 2);
  return keys || values || id != before;
}

Result<int> Run(Graph& graph) { return CountChanges(graph, Fuse); }

}  // namespace

extern const PassDef kAttentionCache = {
    .name = "attention-cache",
    .doc =
        "Attention reads float16 keys and values themselves, not their Cast to float32, and gives "
        "no present ones that nothing reads.",
    .stage = Stage::kLower,
    .level = 3,
    .run = Run,
};

}  // namespace evoq
