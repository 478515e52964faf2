#include "base/math.h"
#include "ops/driver.h"

namespace evoq {

Cost NodeCost(const Graph& graph, const Node& node) {
  const OpDef* op = FindOp(node);
  Cost cost;
  if (op == nullptr) return cost;
  std::vector<TensorType> inputs, outputs;
  const auto count = [&](const TensorType& type) {
    cost.bytes = CheckedAdd(cost.bytes, type.bytes().value_or(0)).value_or(cost.bytes);
  };
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const TensorType type =
        node.inputs[i].valid() ? graph.value(node.inputs[i]).type : TensorType();
    count(type);
    inputs.push_back(InputIsChannelsLast(*op, node, i) ? ToChannelsFirst(type) : type);
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const TensorType type =
        node.outputs[i].valid() ? graph.value(node.outputs[i]).type : TensorType();
    count(type);
    outputs.push_back(i == 0 && IsChannelsLast(*op, node) ? ToChannelsFirst(type) : type);
  }
  bool is_static = !inputs.empty() && !outputs.empty();
  for (const TensorType& type : inputs) is_static &= type.shape.is_static();
  for (const TensorType& type : outputs) is_static &= type.shape.is_static();
  if (is_static && op->macs != nullptr) cost.macs = op->macs(node, inputs, outputs);
  return cost;
}

}  // namespace evoq
