#include "foreign/forecasts/complete.h"

#include <algorithm>

#include "foreign/forecasts/qdq.h"
#include "quant/plan.h"

namespace evoq {
namespace {

// The grid of a QuantizeLinear that reads the value, or of one behind a clamp that alone reads it.
const TensorType* GridElsewhere(const Graph& graph, ValueId value) {
  for (NodeId user : graph.value(value).users) {
    const TensorType* grid = IsQuantize(graph.node(user)) ? GridOf(graph, user) : nullptr;
    if (grid != nullptr && grid->quant->per_tensor()) return grid;
  }
  return nullptr;
}

const TensorType* PerTensor(const TensorType* grid) {
  return grid != nullptr && grid->quant->per_tensor() ? grid : nullptr;
}

// Where the result's numbers end up: its own grid, that behind a Relu or Clip, or that of one of
// several readers.
const TensorType* ResultGrid(const Graph& graph, ValueId y) {
  if (const TensorType* grid = PerTensor(WrittenGrid(graph, y))) return grid;
  return GridElsewhere(graph, y);
}

TensorType OperandOfSum(const Graph& graph, const Node& node, size_t i) {
  const TensorType *sum = ResultGrid(graph, node.outputs[0]),
                   *other = PerTensor(ReadGrid(graph, node.input(1 - i)));
  if (other == nullptr) other = GridElsewhere(graph, node.input(1 - i));
  if (sum == nullptr || other == nullptr) return {};
  return GridFor(LowOf(*sum) - HighOf(*other), HighOf(*sum) - LowOf(*other), sum->dtype,
                 sum->dtype == DType::kInt8 && sum->quant->zero_points[0] == 0,
                 graph.value(node.input(i)).type.shape);
}

TensorType InputGrid(const Graph& graph, const Node& node, size_t i) {
  if (const TensorType* grid = GridElsewhere(graph, node.input(i))) return *grid;
  if (node.op == "Add" && node.inputs.size() == 2) return OperandOfSum(graph, node, i);
  if (!MovesOnly(node) || IsClamp(node)) return {};
  const TensorType* grid = ResultGrid(graph, node.outputs[0]);
  return grid != nullptr ? *grid : TensorType();
}

TensorType OutputGrid(const Graph& graph, const Node& node, const std::vector<TensorType>& inputs,
                      const Missing& missing) {
  if (const TensorType* grid = GridElsewhere(graph, node.outputs[0])) return *grid;
  if (!MovesOnly(node) && !IsAverage(node)) return {};
  double low = 0, high = 0;
  const TensorType* first = nullptr;
  bool same = true;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const auto at = std::find(missing.inputs.begin(), missing.inputs.end(), i);
    const TensorType* grid = at == missing.inputs.end() ? PerTensor(ReadGrid(graph, node.input(i)))
                                                        : &inputs[at - missing.inputs.begin()];
    if (grid == nullptr || !grid->quantized()) continue;
    same = same && (first == nullptr || SameGrid(*first, *grid));
    if (first == nullptr) first = grid;
    low = std::min(low, LowOf(*grid));
    high = std::max(high, HighOf(*grid));
  }
  if (first == nullptr) return {};
  if (same) return *first;
  return GridFor(low, high, first->dtype,
                 first->dtype == DType::kInt8 && first->quant->zero_points[0] == 0, Shape());
}

}  // namespace

Missing MissingPairs(const Graph& graph, const Node& node) {
  Missing missing;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (IsActivation(graph, node.inputs[i]) && ReadGrid(graph, node.inputs[i]) == nullptr)
      missing.inputs.push_back(i);
  }
  missing.output = !node.outputs.empty() && WrittenGrid(graph, node.outputs[0]) == nullptr;
  return missing;
}

bool TouchesIntegers(const Graph& graph, const Node& node) {
  const auto near = [&](ValueId v) {
    if (!IsActivation(graph, v)) return false;
    if (ReadGrid(graph, v) != nullptr || GridElsewhere(graph, v) != nullptr) return true;
    const NodeId producer = graph.value(v).producer;
    return graph.alive(producer) && IsWeighted(graph.node(producer)) &&
           ReadGrid(graph, graph.node(producer).input(0)) != nullptr;
  };
  return std::any_of(node.inputs.begin(), node.inputs.end(), near) ||
         (!node.outputs.empty() && ResultGrid(graph, node.outputs[0]) != nullptr);
}

bool LeadsToIntegers(const Graph& graph, ValueId value) {
  if (GridElsewhere(graph, value) != nullptr) return true;
  return std::any_of(graph.value(value).users.begin(), graph.value(value).users.end(),
                     [&](NodeId user) {
                       const Node& node = graph.node(user);
                       if (node.outputs.empty() || IsQuantize(node)) return IsQuantize(node);
                       if (IsWeighted(node)) return ReadGrid(graph, node.input(1)) != nullptr;
                       return WrittenGrid(graph, node.outputs[0]) != nullptr ||
                              (MovesOnly(node) && LeadsToIntegers(graph, node.outputs[0]));
                     });
}

Completion PlanCompletion(const Graph& graph, const Node& node, const Missing& missing,
                          bool output_needed) {
  Completion plan;
  plan.complete = true;
  for (size_t i : missing.inputs) {
    plan.inputs.push_back(InputGrid(graph, node, i));
    plan.complete = plan.complete && plan.inputs.back().quantized();
  }
  if (missing.output && output_needed) {
    plan.output = OutputGrid(graph, node, plan.inputs, missing);
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
