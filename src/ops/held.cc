#include "ops/held.h"

namespace evoq {
namespace {

constexpr std::string_view kMark = "held:";

}  // namespace

void Hold(Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  if (IsHeld(node)) return;
  graph.SetOp(id, std::string(kMark) + node.op, std::string(kMark) + node.domain);
}

void Release(Graph& graph) {
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (graph.alive(id) && IsHeld(node))
      graph.SetOp(id, node.op.substr(kMark.size()), node.domain.substr(kMark.size()));
  }
}

bool IsHeld(const Node& node) { return node.op.starts_with(kMark); }

const OpDef kHeldOp = {
    .name = "held",
    .domain = "evoq",
    .min_inputs = 0,
    .max_inputs = -1,
    .outputs = -1,
    .random = true,  // neither folded nor shared
    .infer = [](const InferArgs&) -> Result<std::vector<TensorType>> {
      return Fail(ErrorCode::kInternal, "types of a held node were asked for");
    },
};

}  // namespace evoq
