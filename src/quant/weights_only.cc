// QuantizeWeights: constants of int8 and fewer bits, float32 arithmetic.
#include "graph/float_reason.h"
#include "kernels/gemm/blocks/block_data.h"
#include "passes/widen.h"
#include "quant/given.h"
#include "quant/low_bits.h"
#include "quant/params.h"
#include "quant/plan.h"
#include "quant/quant.h"
#include "reference/reference.h"

namespace evoq {
namespace {

constexpr int64_t kLeastElements = 256;  // smaller constants save nothing

// 16-bit elements as float32; others as they are.
Result<Tensor> Widened(const Tensor& weight) {
  const bool narrow = IsFloat(weight.dtype()) && DTypeBits(weight.dtype()) == 16;
  return narrow && weight.layout().empty() ? ToFloat32(weight) : Result<Tensor>(weight);
}

std::optional<Reason> Refusal(const Tensor& weight, const Node& node,
                              const QuantizeOptions& options, const GivenType* given) {
  if (auto kept = KeptByOptions(node, options)) return kept;
  if (given != nullptr && given->real) return kGivenAsFloat;
  if (weight.dtype() != DType::kFloat32 || !weight.layout().empty()) {
    return Reason{
        "types", fmt::format("the weight is {}, expected plain float32", weight.type().ToString())};
  }
  if (given != nullptr) return std::nullopt;
  if (weight.elements() < kLeastElements || weight.shape().rank() < 2) {
    return Reason{"small", fmt::format("a weight of {} elements", weight.elements())};
  }
  return std::nullopt;
}

// The blocks of data beside weights that have none.
constexpr int64_t kDataBlockOfChannels = 128;

// Whether the weight takes few bits: a matrix of a product of two operands, whose kernels read it
// so. A convolution reads a float32 copy, and its short sums lose more by fewer bits.
bool TakesLowBits(const Node& node, const Tensor& weight) {
  return LinearFormOf(node) != nullptr && LinearFormOf(node)->two_operands &&
         weight.shape().rank() == 2;
}

}  // namespace

Result<QuantizeReport> QuantizeWeights(Graph& graph, const QuantizeOptions& options, WeightsAs as) {
  QuantizeReport report;
  constexpr int kLowBits = -2, kGiven = -3;         // in place of an axis
  std::map<std::pair<ValueId, int>, ValueId> done;  // shared weights stay shared
  const std::vector<NodeId> nodes = graph.order();
  for (NodeId id : nodes) {
    const Node& node = graph.node(id);
    if (IsLinear(node)) EVOQ_TRY(WidenConstant(graph, node.input(1)));
    const auto place = WeightPlaceOf(graph, graph.node(id));
    if (!place) continue;
    const ValueId w = node.input(place->input);
    EVOQ_ASSIGN(const Tensor weight, Widened(graph.value(w).constant));
    const GivenType* given = GivenFor(options, graph.value(w).name);
    if (auto reason = Refusal(weight, node, options, given)) {
      report.nodes.Add(Precision::kFloat32);
      report.float_reasons[node.name] = *reason;
      SetFloatReason(graph.attrs(id), *reason);
      continue;
    }
    EVOQ_TRY(WithContext(RangeOf(weight), graph.value(w).name));
    if (given != nullptr) {
      ValueId& q = done[{w, kGiven}];
      if (!q.valid()) {
        EVOQ_ASSIGN(q, AddGivenWeight(graph, w, weight, *given, report));
      }
      graph.SetInput(id, place->input, q);
      DropUnread(graph, w);
      CountWeight(graph.value(q).type, report);
      report.nodes.Add(Precision::kFloat32);
      continue;
    }
    const LowBits* low = TakesLowBits(node, weight) ? as.low_bits : nullptr;
    const TensorType& x = graph.value(node.input(0)).type;
    const bool rounds =
        low != nullptr && as.rounding && x.dtype == DType::kFloat32 && !x.quantized();
    const int axis = low != nullptr ? kLowBits : options.per_channel ? place->axis : -1;
    ValueId& q = done[{w, axis}];
    if (!q.valid())
      q = graph.AddConstant(
          fmt::format("{}.{}", graph.value(w).name, low != nullptr ? low->name : "int8"),
          Rounded(options, {.node = node.name,
                            .weight = graph.value(w).name,
                            .input = place->input,
                            .values = weight,
                            .low_bits = low,
                            .block = options.block,
                            .axis = low != nullptr ? -1 : axis}));
    report.used[graph.value(w).name] = graph.value(q).type;
    graph.SetInput(id, place->input, q);
    DropUnread(graph, w);
    if (rounds)
      graph.attrs(id).Set(kDataBlock, options.block > 0 ? options.block : kDataBlockOfChannels);
    report.nodes.Add(rounds ? Precision::kInt8 : Precision::kFloat32);
    if (!rounds) ++(low != nullptr ? report.low_bit_weights[low->name] : report.int8_weights);
  }
  if (done.empty())
    report.warnings.push_back(
        fmt::format("no weight became {}int8: the model is unchanged",
                    as.low_bits == nullptr ? "" : fmt::format("{} or ", as.low_bits->name)));
  NoteNotUsed(options, "the scheme quantizes weights only", report);
  graph = graph.Compacted();
  EVOQ_TRY(InferTypes(graph));
  EVOQ_TRY(graph.Verify());
  return report;
}

}  // namespace evoq
