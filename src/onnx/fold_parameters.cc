#include "onnx/fold_parameters.h"

#include <algorithm>
#include <vector>

#include "base/budget_scope.h"
#include "graph/value_sets.h"
#include "reference/reference.h"

namespace evoq {
namespace {

// No larger than what it is made from, or so much.
constexpr int64_t kMostBytes = 64 << 10;

bool IsQuantOp(const Node& node) {
  return node.domain.empty() && (node.op == "QuantizeLinear" || node.op == "DequantizeLinear");
}

// Nodes on the way to a parameter, the first one first.
std::vector<NodeId> ParameterNodes(const Graph& graph) {
  std::vector<bool> wanted(static_cast<size_t>(graph.value_count()));
  std::vector<NodeId> nodes;
  const std::vector<NodeId>& order = graph.order();
  for (auto id = order.rbegin(); id != order.rend(); ++id) {
    const Node& node = graph.node(*id);
    const bool parameters = IsQuantOp(node);
    const bool here = !parameters && std::ranges::any_of(node.outputs, [&](ValueId out) {
      return out.valid() && wanted[static_cast<size_t>(out.index)];
    });
    if (here) nodes.push_back(*id);
    for (size_t i = node.op == "QuantizeLinear" ? 1 : 0; i < node.inputs.size(); ++i) {
      if ((here || parameters) && node.inputs[i].valid())
        wanted[static_cast<size_t>(node.inputs[i].index)] = true;
    }
  }
  std::ranges::reverse(nodes);
  return nodes;
}

Status Fold(Graph& graph, NodeId id) {
  const Node node = graph.node(id);
  if (FindDefinition(node) == nullptr) return {};
  const OpDef* const op = FindOp(node);
  if (op == nullptr || op->random || op->bodies > 0) return {};
  std::vector<Tensor> inputs;
  int64_t most = kMostBytes;
  for (const ValueId in : node.inputs) {
    if (in.valid() && !graph.value(in).is_constant()) return {};
    inputs.push_back(in.valid() ? graph.value(in).constant : Tensor());
    if (inputs.back().defined()) most = std::max(most, FootprintBytes(inputs.back()));
  }
  const std::vector<TensorType> declared(node.outputs.size());
  EVOQ_ASSIGN(const std::vector<TensorType> types, InferNode(graph, node, declared));
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const auto bytes = types[i].bytes();
    if (!bytes || *bytes > most || graph.IsOutput(node.outputs[i])) return {};
  }
  auto results = EvaluateAhead(kReference, node, inputs, types);
  if (!results && results.error().code() == ErrorCode::kTooLarge) return {};
  if (!results) return tl::unexpected(results.error());
  int64_t bytes = 0;
  for (const Tensor& result : *results) bytes += FootprintBytes(result);
  if (!BudgetScope::HasHalfBeyond(bytes)) return {};
  EVOQ_TRY(SpendMemory(bytes, "parameters of quantization"));
  graph.RemoveNode(id);
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i].valid()) graph.SetConstant(node.outputs[i], (*results)[i]);
  }
  return {};
}

}  // namespace

Status FoldQuantParameters(Graph& graph) {
  for (const NodeId id : ParameterNodes(graph)) {
    const std::string label = NodeLabel(graph.node(id));
    EVOQ_TRY(WithContext(Fold(graph, id), label));
  }
  return {};
}

}  // namespace evoq
