#include "passes/match.h"

namespace evoq {
namespace {

// The body that a constant condition takes, or nothing.
const Graph* TakenBody(const Graph& graph, const Node& node) {
  const Tensor* condition = graph.ConstantInput(node, 0);
  if (condition == nullptr || condition->dtype() != DType::kBool || condition->elements() != 1)
    return nullptr;
  return node.bodies[condition->data<bool>()[0] ? 0 : 1].get();
}

// Adds the nodes of `body`, its inputs being `inputs`; returns its outputs.
std::vector<ValueId> AddBody(Graph& graph, const Graph& body, std::span<const ValueId> inputs,
                             const std::string& prefix) {
  std::vector<ValueId> to(static_cast<size_t>(body.value_count()));
  for (size_t i = 0; i < body.inputs().size(); ++i) to[body.inputs()[i].index] = inputs[i];
  const auto read = [&](ValueId id) {
    if (!id.valid()) return id;
    ValueId& mapped = to[id.index];
    if (!mapped.valid() && body.value(id).is_constant())
      mapped = graph.AddConstant(body.value(id).name, body.value(id).constant);
    return mapped;
  };
  for (NodeId id : body.order()) {
    Node node = body.node(id);
    node.name = prefix + "/" + node.name;
    for (ValueId& in : node.inputs) in = read(in);
    for (ValueId& out : node.outputs) {
      if (!out.valid()) continue;
      const Value& value = body.value(out);
      to[out.index] = graph.AddValue(value.name, value.type);
      out = to[out.index];
    }
    graph.AddNode(std::move(node));
  }
  std::vector<ValueId> outputs;
  for (ValueId id : body.outputs()) outputs.push_back(read(id));
  return outputs;
}

Result<int> Run(Graph& graph) {
  int changes = 0;
  for (NodeId id : NodesOf(graph)) {
    if (!IsOp(graph, id, "If")) continue;
    const Node node = graph.node(id);
    const Graph* body = TakenBody(graph, node);
    if (body == nullptr || body->inputs().size() + 1 != node.inputs.size() ||
        body->outputs().size() < node.outputs.size())
      continue;
    const std::vector<ValueId> results =
        AddBody(graph, *body, std::span(node.inputs).subspan(1), node.name);
    graph.RemoveNode(id);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (!node.outputs[i].valid()) continue;
      // A model output needs a producer and a name of its own.
      const bool shared = graph.IsOutput(node.outputs[i]) &&
                          (!graph.value(results[i]).producer.valid() || graph.IsOutput(results[i]));
      const ValueId result =
          shared ? graph.Apply("Identity", node.name + "/output", {results[i]}) : results[i];
      graph.ReplaceUses(node.outputs[i], result);
    }
    ++changes;
  }
  return changes;
}

}  // namespace

extern const PassDef kInlineIf = {
    .name = "inline-if",
    .doc = "An If with a constant condition becomes the nodes of the branch that it takes.",
    .stage = Stage::kOptimize,
    .level = 0,
    .run = Run,
};

}  // namespace evoq
