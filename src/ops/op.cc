#include "ops/op.h"

#include "ops/driver.h"
#include "ops/held.h"
#include "ops/op_rows.h"
#include "ops/util.h"
#include "tensor/permute.h"

namespace evoq {

#define EVOQ_ROW_TYPE OpDef
#define EVOQ_ROW_FILE "ops/ops.inc"
#include "base/rows.inl.h"

std::span<const OpDef* const> AllOps() {
  static const std::vector<const OpDef*> all = SortedByOp<OpDef>(kAllRows);
  return all;
}

const OpDef* FindOp(std::string_view op, std::string_view domain) {
  return FindByOp(AllOps(), op, domain);
}

const OpDef* FindOp(const Node& node) {
  return IsHeld(node) ? &kHeldOp : FindOp(node.op, node.domain);
}

std::string NodeLabel(const Node& node) {
  return node.domain.empty() ? fmt::format("node {} ({})", node.name, node.op)
                             : fmt::format("node {} ({}::{})", node.name, node.domain, node.op);
}

Status CheckArity(const OpDef& op, const Node& node, const std::function<bool(size_t)>& present) {
  const int inputs = static_cast<int>(node.inputs.size()),
            outputs = static_cast<int>(node.outputs.size());
  if (op.max_inputs >= 0 && inputs > op.max_inputs)
    return InvalidInput("{} inputs, expected at most {}", inputs, op.max_inputs);
  for (int i = 0; i < op.min_inputs; ++i) {
    if (i >= inputs || !present(i))
      return InvalidInput("input {} is missing, expected at least {}", i, op.min_inputs);
  }
  if (static_cast<int>(node.bodies.size()) != op.bodies)
    return InvalidInput("{} subgraphs, expected {}", node.bodies.size(), op.bodies);
  if (outputs == 0) return InvalidInput("no outputs, expected at least 1");
  if (op.outputs >= 0 && outputs > op.outputs)
    return InvalidInput("{} outputs, expected at most {}", outputs, op.outputs);
  return {};
}

// ---- channels-last

bool IsChannelsLast(const OpDef& op, const Node& node) {
  return op.spatial && node.attrs.Int("channels_last") == 1;
}

bool InputIsChannelsLast(const OpDef& op, const Node& node, size_t i) {
  if (!IsChannelsLast(op, node)) return false;
  return i == 0 || static_cast<int>(i) == InputWith(op, Role::kResidual);
}

std::vector<int> ChannelsFirstOrder(int rank) {
  std::vector<int> permutation = {0, rank - 1};
  for (int i = 1; i + 1 < rank; ++i) permutation.push_back(i);
  return permutation;
}

std::vector<int> ChannelsLastOrder(int rank) {
  std::vector<int> permutation = {0};
  for (int i = 2; i < rank; ++i) permutation.push_back(i);
  permutation.push_back(1);
  return permutation;
}

namespace {

TensorType PermutedType(const TensorType& type, std::vector<int> (*order)(int)) {
  const int rank = type.shape.rank();
  if (!type.shape.ranked() || rank < 3) return type;
  const std::vector<int> permutation = order(rank);
  return PermutedAxes(type, std::vector<int64_t>(permutation.begin(), permutation.end()));
}

}  // namespace

TensorType ToChannelsFirst(const TensorType& type) {
  return PermutedType(type, ChannelsFirstOrder);
}
TensorType ToChannelsLast(const TensorType& type) { return PermutedType(type, ChannelsLastOrder); }

}  // namespace evoq
