#include "reference/reference.h"

#include "ops/driver.h"
#include "ops/op_rows.h"
#include "reference/definition.h"

namespace evoq {

namespace reference {
#define EVOQ_ROW_TYPE Definition
#define EVOQ_ROW_FILE "ops/ops.inc"
#include "base/rows.inl.h"
}  // namespace reference

std::span<const Definition* const> AllDefinitions() {
  static const std::vector<const Definition*> all = SortedByOp<Definition>(reference::kAllRows);
  return all;
}

const Definition* FindDefinition(const Node& node) {
  return FindByOp(AllDefinitions(), node.op, node.domain);
}

bool HasDefinition(const Node& node) { return FindDefinition(node) != nullptr; }

Result<std::vector<Tensor>> EvaluateNode(const Node& node, std::span<const Tensor> inputs,
                                         std::span<const TensorType> output_types) {
  const OpDef* op = FindOp(node);
  const Definition* definition = FindDefinition(node);
  if (op == nullptr || definition == nullptr)
    return Unsupported("{}: evoq has no operator of this name", NodeLabel(node));
  return EvaluateBy(*op, *definition, kReference, node, inputs, output_types);
}

Result<std::vector<Tensor>> EvaluateGraph(
    const Graph& graph, std::span<const Tensor> inputs,
    const std::function<void(ValueId, const Tensor&)>& watch) {
  EVOQ_TRY(CheckInputs(graph, inputs));
  std::vector<Tensor> values(graph.value_count());
  std::vector<size_t> readers(graph.value_count());
  for (int i = 0; i < graph.value_count(); ++i) readers[i] = graph.value(ValueId{i}).users.size();
  for (ValueId id : graph.outputs()) ++readers[id.index];
  for (size_t i = 0; i < inputs.size(); ++i) values[graph.inputs()[i].index] = inputs[i];
  const auto read = [&](ValueId id) -> Tensor {
    if (!id.valid()) return {};
    return graph.value(id).is_constant() ? graph.value(id).constant : values[id.index];
  };
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    std::vector<Tensor> node_inputs;
    for (ValueId input : node.inputs) node_inputs.push_back(read(input));
    std::vector<TensorType> types;
    for (ValueId output : node.outputs)
      types.push_back(output.valid() ? graph.value(output).type : TensorType());
    EVOQ_ASSIGN(std::vector<Tensor> outputs, EvaluateNode(node, node_inputs, types));
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (!node.outputs[i].valid()) continue;
      if (watch) watch(node.outputs[i], outputs[i]);
      if (readers[node.outputs[i].index] > 0) values[node.outputs[i].index] = std::move(outputs[i]);
    }
    for (ValueId input : node.inputs) {
      if (input.valid() && --readers[input.index] == 0) values[input.index] = Tensor();
    }
  }
  std::vector<Tensor> results;
  for (ValueId id : graph.outputs()) results.push_back(read(id));
  return results;
}

}  // namespace evoq
