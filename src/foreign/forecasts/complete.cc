#include "foreign/forecasts/complete.h"

#include <algorithm>
#include <set>

#include "foreign/forecasts/qdq.h"
#include "passes/match.h"
#include "quant/plan.h"

namespace evoq {
namespace {

const TensorType* PerTensor(const TensorType* type) {
  return type != nullptr && type->quant->per_tensor() ? type : nullptr;
}

// Where the result's numbers end up: its own type, that behind a Relu or Clip, or that of one of
// several readers.
const TensorType* ResultQuantType(const Graph& graph, ValueId y) {
  if (const TensorType* type = PerTensor(WrittenQuantType(graph, y))) return type;
  return ReaderQuantType(graph, y);
}

TensorType OperandOfSum(const Graph& graph, const Node& node, size_t i) {
  const TensorType *sum = ResultQuantType(graph, node.outputs[0]),
                   *other = PerTensor(ReadQuantType(graph, node.input(1 - i)));
  if (other == nullptr) other = ReaderQuantType(graph, node.input(1 - i));
  if (sum == nullptr || other == nullptr) return {};
  return QuantTypeFor(LowOf(*sum) - HighOf(*other), HighOf(*sum) - LowOf(*other), sum->dtype,
                      sum->dtype == DType::kInt8 && sum->quant->zero_points[0] == 0,
                      graph.value(node.input(i)).type.shape);
}

TensorType InputQuantType(const Graph& graph, const Node& node, size_t i) {
  if (const TensorType* type = ReaderQuantType(graph, node.input(i))) return *type;
  if (node.op == "Add" && node.inputs.size() == 2) return OperandOfSum(graph, node, i);
  if (!MovesOnly(node) || IsClamp(node)) return {};
  const TensorType* type = ResultQuantType(graph, node.outputs[0]);
  return type != nullptr ? *type : TensorType();
}

TensorType OutputQuantType(const Graph& graph, const Node& node,
                           const std::vector<TensorType>& inputs, const Missing& missing) {
  if (const TensorType* type = ReaderQuantType(graph, node.outputs[0])) return *type;
  if (!MovesOnly(node) && !IsAverage(node)) return {};
  double low = 0, high = 0;
  const TensorType* first = nullptr;
  bool same = true;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const auto at = std::find(missing.inputs.begin(), missing.inputs.end(), i);
    const TensorType* type = at == missing.inputs.end()
                                 ? PerTensor(ReadQuantType(graph, node.input(i)))
                                 : &inputs[at - missing.inputs.begin()];
    if (type == nullptr || !type->quantized()) continue;
    same = same && (first == nullptr || SameQuant(*first, *type));
    if (first == nullptr) first = type;
    low = std::min(low, LowOf(*type));
    high = std::max(high, HighOf(*type));
  }
  if (first == nullptr) return {};
  if (same) return *first;
  return QuantTypeFor(low, high, first->dtype,
                      first->dtype == DType::kInt8 && first->quant->zero_points[0] == 0, Shape());
}

}  // namespace

Missing MissingPairs(const Graph& graph, const Node& node) {
  Missing missing;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (IsActivation(graph, node.inputs[i]) && ReadQuantType(graph, node.inputs[i]) == nullptr)
      missing.inputs.push_back(i);
  }
  missing.output = !node.outputs.empty() && node.outputs[0].valid() &&
                   WrittenQuantType(graph, node.outputs[0]) == nullptr;
  return missing;
}

bool TouchesIntegers(const Graph& graph, const Node& node) {
  const auto near = [&](ValueId v) {
    if (!IsActivation(graph, v)) return false;
    if (ReadQuantType(graph, v) != nullptr || ReaderQuantType(graph, v) != nullptr) return true;
    const NodeId producer = graph.value(v).producer;
    return graph.alive(producer) && IsWeighted(graph.node(producer)) &&
           ReadQuantType(graph, graph.node(producer).input(0)) != nullptr;
  };
  return std::any_of(node.inputs.begin(), node.inputs.end(), near) ||
         (!node.outputs.empty() && ResultQuantType(graph, node.outputs[0]) != nullptr);
}

bool LeadsToIntegers(const Graph& graph, ValueId value) {
  std::vector<ValueId> ahead = {value};
  std::set<ValueId> seen = {value};  // paths that part and meet again are walked once
  while (!ahead.empty()) {
    const ValueId at = ahead.back();
    ahead.pop_back();
    for (NodeId user : graph.value(at).users) {
      const Node& node = graph.node(user);
      if (IsQuantize(node)) return true;
      if (node.outputs.empty() || !node.outputs[0].valid()) continue;
      if (IsWeighted(node)) {
        if (ReadQuantType(graph, node.input(1)) != nullptr) return true;
        continue;
      }
      if (WrittenQuantType(graph, node.outputs[0]) != nullptr) return true;
      if (MovesOnly(node) && seen.insert(node.outputs[0]).second) ahead.push_back(node.outputs[0]);
    }
  }
  return false;
}

Completion PlanCompletion(const Graph& graph, const Node& node, const Missing& missing,
                          bool output_needed) {
  Completion plan;
  plan.complete = true;
  for (size_t i : missing.inputs) {
    plan.inputs.push_back(InputQuantType(graph, node, i));
    plan.complete = plan.complete && plan.inputs.back().quantized();
  }
  if (missing.output && output_needed) {
    plan.output = OutputQuantType(graph, node, plan.inputs, missing);
    plan.complete = plan.complete && plan.output.quantized();
  }
  return plan;
}

bool CompletePairs(Graph& graph, NodeId id, bool output_needed) {
  const Node node = graph.node(id);
  const Missing missing = MissingPairs(graph, node);
  const Completion plan = PlanCompletion(graph, node, missing, output_needed);
  if (!plan.complete || (missing.inputs.empty() && !plan.output.quantized())) return false;
  for (size_t k = 0; k < missing.inputs.size(); ++k) {
    const size_t i = missing.inputs[k];
    graph.SetInput(id, i, AddPair(graph, node.input(i), plan.inputs[k]));
  }
  if (!plan.output.quantized()) return true;
  const ValueId real = AddPair(graph, node.outputs[0], plan.output);
  MoveReaders(graph, node.outputs[0], real, true);
  return true;
}

}  // namespace evoq
