// QuantizeWeights: int8 constants, float32 arithmetic.
#include "graph/float_reason.h"
#include "passes/widen.h"
#include "quant/params.h"
#include "quant/plan.h"
#include "quant/quant.h"
#include "reference/reference.h"

namespace evoq {
namespace {

constexpr int64_t kLeastElements = 256;  // smaller constants save nothing

struct Place {
  size_t input;
  int axis;  // whose indices have a scale each
};

// Where an operator reads a weight: linear operators their second input, those that look up rows
// their table (a scale per row).
std::optional<Place> WeightPlace(const Graph& graph, const Node& node) {
  if (IsLinear(node)) {
    const Tensor* w = graph.ConstantInput(node, 1);
    if (w != nullptr) return Place{1, WeightAxis(node, w->shape().rank())};
  } else if (IsConstantTable(graph, node) && node.attrs.Int("axis", 0) == 0) {
    return Place{0, 0};
  }
  return std::nullopt;
}

// 16-bit elements as float32; others as they are.
Result<Tensor> Widened(const Tensor& weight) {
  const bool narrow = IsFloat(weight.dtype()) && DTypeBits(weight.dtype()) == 16;
  return narrow && weight.layout().empty() ? ToFloat32(weight) : Result<Tensor>(weight);
}

std::optional<Reason> Refusal(const Tensor& weight, const Node& node,
                              const QuantizeOptions& options) {
  if (auto kept = KeptByOptions(node, options)) return kept;
  if (weight.dtype() != DType::kFloat32 || !weight.layout().empty()) {
    return Reason{
        "types", fmt::format("the weight is {}, expected plain float32", weight.type().ToString())};
  }
  if (weight.elements() < kLeastElements || weight.shape().rank() < 2) {
    return Reason{"small", fmt::format("a weight of {} elements", weight.elements())};
  }
  return std::nullopt;
}

}  // namespace

Result<QuantizeReport> QuantizeWeights(Graph& graph, const QuantizeOptions& options) {
  QuantizeReport report;
  std::map<std::pair<ValueId, int>, ValueId> done;  // shared weights stay shared
  const std::vector<NodeId> nodes = graph.order();
  for (NodeId id : nodes) {
    const Node& node = graph.node(id);
    if (IsLinear(node)) EVOQ_TRY(WidenConstant(graph, node.input(1)));
    const auto place = WeightPlace(graph, graph.node(id));
    if (!place) continue;
    const ValueId w = node.input(place->input);
    EVOQ_ASSIGN(const Tensor weight, Widened(graph.value(w).constant));
    if (auto reason = Refusal(weight, node, options)) {
      report.nodes.Add(Precision::kFloat32);
      report.float_reasons[node.name] = *reason;
      SetFloatReason(graph.attrs(id), *reason);
      continue;
    }
    EVOQ_TRY(WithContext(RangeOf(weight), graph.value(w).name));
    const int axis = options.per_channel ? place->axis : -1;
    ValueId& q = done[{w, axis}];
    if (!q.valid())
      q = graph.AddConstant(graph.value(w).name + ".int8", QuantizeWeight(weight, axis));
    graph.SetInput(id, place->input, q);
    DropUnread(graph, w);
    report.nodes.Add(Precision::kFloat32);
    ++report.int8_weights;
  }
  if (report.int8_weights == 0)
    report.warnings.push_back("no weight became int8: the model is unchanged");
  graph = graph.Compacted();
  EVOQ_TRY(InferTypes(graph));
  EVOQ_TRY(graph.Verify());
  return report;
}

}  // namespace evoq
