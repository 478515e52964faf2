#include <algorithm>

#include "base/math.h"
#include "ops/driver.h"
#include "ops/experts.h"

namespace evoq {

Cost NodeCost(const Graph& graph, const Node& node) {
  const OpDef* op = FindOp(node);
  Cost cost;
  const bool nothing = !node.outputs.empty() && std::ranges::all_of(node.outputs, [&](ValueId id) {
    return id.valid() && graph.value(id).type.shape.elements() == 0;
  });
  if (op == nullptr || nothing) return cost;
  std::vector<TensorType> inputs, outputs;
  int64_t alternatives = 0;  // bytes
  const auto add = [](const TensorType& type, int64_t& bytes) {
    bytes = CheckedAdd(bytes, type.bytes().value_or(0)).value_or(bytes);
  };
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const TensorType type =
        node.inputs[i].valid() ? graph.value(node.inputs[i]).type : TensorType();
    const bool one_of = op->alternatives >= 0 && i >= static_cast<size_t>(op->alternatives);
    add(type, one_of ? alternatives : cost.bytes);
    inputs.push_back(InputIsChannelsLast(*op, node, i) ? ToChannelsFirst(type) : type);
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const TensorType type =
        node.outputs[i].valid() ? graph.value(node.outputs[i]).type : TensorType();
    add(type, cost.bytes);
    outputs.push_back(i == 0 && IsChannelsLast(*op, node) ? ToChannelsFirst(type) : type);
  }
  const ReadShare share = ReadShareOf(node, inputs);
  cost.bytes = CheckedAdd(cost.bytes, alternatives / share.of * share.read).value_or(cost.bytes);
  bool is_static = !inputs.empty() && !outputs.empty();
  for (const TensorType& type : inputs) is_static &= type.shape.is_static();
  for (const TensorType& type : outputs) is_static &= type.shape.is_static();
  if (is_static && op->macs != nullptr) cost.macs = op->macs(node, inputs, outputs);
  return cost;
}

}  // namespace evoq
