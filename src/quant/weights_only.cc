// QuantizeWeights: constants of int8 and fewer bits, float32 arithmetic.
#include <algorithm>
#include <map>
#include <set>

#include "graph/float_reason.h"
#include "graph/moving_out.h"
#include "kernels/attention/attention_inputs.h"
#include "kernels/gemm/blocks/block_data.h"
#include "kernels/gemm/blocks/weights.h"
#include "passes/match.h"
#include "passes/widen.h"
#include "quant/given.h"
#include "quant/logarithm.h"
#include "quant/low_bits.h"
#include "quant/params.h"
#include "quant/plan.h"
#include "quant/quant.h"
#include "quant/recurrent_weights.h"
#include "quant/turn_product.h"
#include "quant/weight_source.h"
#include "reference/reference.h"
#include "tensor/spilled.h"

namespace evoq {
namespace {

// Smaller tables save little by fewer bits than 8, and models that have such lose much by it.
constexpr int64_t kLeastTied = int64_t{1} << 20;

// 16-bit elements as float32; others as they are.
Result<Tensor> Widened(const Tensor& weight) {
  return IsNarrow(weight) ? ToFloat32(weight) : Result<Tensor>(weight);
}

std::optional<Reason> Refusal(const Tensor& weight, const Node& node,
                              const QuantizeOptions& options, const GivenType* given) {
  if (auto kept = KeptByOptions(node, options)) return kept;
  if (given != nullptr && given->real) return kGivenAsFloat;
  if (!IsNarrow(weight) && (weight.dtype() != DType::kFloat32 || !weight.layout().empty())) {
    return Reason{
        "types", fmt::format("the weight is {}, expected plain float32", weight.type().ToString())};
  }
  if (given != nullptr) return std::nullopt;
  if (weight.elements() < kLeastNarrowed || weight.shape().rank() < 2) {
    return Reason{"small", fmt::format("a weight of {} elements", weight.elements())};
  }
  return std::nullopt;
}

// Whether the weight takes few bits: a matrix of a product of two operands, whose kernels read it
// so. A convolution reads a float32 copy, and its short sums lose more by fewer bits.
bool TakesLowBits(const Node& node, const Tensor& weight) {
  return LinearFormOf(node) != nullptr && LinearFormOf(node)->two_operands &&
         weight.shape().rank() == 2;
}

// Whether `b` holds the matrix `a`, or its transposed one.
bool IsSame(const Tensor& a, const Tensor& b, bool transposed) {
  if (a.dtype() != b.dtype() || !a.layout().empty() || !b.layout().empty()) return false;
  if (!transposed) return a.shape() == b.shape() && (a.raw() == b.raw() || BitEqual(a, b));
  const std::vector<int64_t> sizes = a.sizes();
  if (b.shape() != Shape{sizes[1], sizes[0]} || DTypeBits(a.dtype()) != 32) return false;
  const auto *x = reinterpret_cast<const uint32_t*>(a.raw()),
             *y = reinterpret_cast<const uint32_t*>(b.raw());
  constexpr int64_t kTile = 16;  // rows of a cache line each
  for (int64_t i = 0; i < sizes[0]; i += kTile) {
    for (int64_t j = 0; j < sizes[1]; ++j) {
      for (int64_t r = i; r < std::min(i + kTile, sizes[0]); ++r) {
        if (x[r * sizes[1] + j] != y[j * sizes[0] + r]) return false;
      }
    }
  }
  return true;
}

// A table whose rows are looked up and which is, transposed, the weight of a product: a tied
// embedding.
struct Tie {
  NodeId product;
  ValueId weight;
};

// By the node that looks up. Only where the weight becomes low bits and no node is to be kept.
std::map<NodeId, Tie> TiesOf(const Graph& graph, const QuantizeOptions& options) {
  std::map<NodeId, Tie> ties;
  for (NodeId id : graph.order()) {
    const Node& lookup = graph.node(id);
    if (!IsConstantTable(graph, lookup) || lookup.attrs.Int("axis", 0) != 0) continue;
    const Tensor& table = graph.value(lookup.input(0)).constant;
    if (table.shape().rank() != 2 || table.elements() < kLeastTied ||
        KeptByOptions(lookup, options) || !IsFloat(table.dtype()) ||
        GivenFor(options, graph.value(lookup.input(0)).name) != nullptr)
      continue;
    for (NodeId product : graph.order()) {
      const Node& node = graph.node(product);
      if (!IsLinear(node) || !LinearFormOf(node)->two_operands || KeptByOptions(node, options))
        continue;
      const WeightSource source = SourceOf(graph, node.input(1));
      if (!source.constant.valid() || GivenFor(options, graph.value(node.input(1)).name) != nullptr)
        continue;
      const Tensor& weight = graph.value(source.constant).constant;
      if (weight.shape().rank() != 2 || !IsSame(table, weight, !source.transposed)) continue;
      ties.emplace(id, Tie{product, node.input(1)});
      break;
    }
  }
  return ties;
}

// The nodes in order, but each product behind the first node that looks up its weight: the weight,
// in float32, need not wait for it.
std::vector<NodeId> OrderOf(const Graph& graph, const std::map<NodeId, Tie>& ties) {
  std::vector<NodeId> nodes;
  std::set<NodeId> taken;
  for (NodeId id : graph.order()) {
    if (!taken.insert(id).second) continue;
    nodes.push_back(id);
    const auto tie = ties.find(id);
    if (tie != ties.end() && taken.insert(tie->second.product).second)
      nodes.push_back(tie->second.product);
  }
  return nodes;
}

// Whether the value says which experts count, by at most so many nodes between (a Softmax, the
// search for the largest): an error there changes whole experts, and the weight is small beside
// theirs.
bool ChoosesExperts(const Graph& graph, ValueId scores, int between = 2) {
  return std::ranges::any_of(graph.value(scores).users, [&](NodeId id) {
    const Node& reader = graph.node(id);
    if (IsOp(graph, id, "ChooseExpert", "evoq") && reader.input(0) == scores) return true;
    return between > 0 && std::ranges::any_of(reader.outputs, [&](ValueId y) {
             return y.valid() && ChoosesExperts(graph, y, between - 1);
           });
  });
}

class WeightsQuantizer {
 public:
  WeightsQuantizer(Graph& graph, const QuantizeOptions& options, WeightsAs as)
      : graph_(graph), options_(options), as_(as) {}

  Status Run() {
    if (as_.low_bits != nullptr) ties_ = TiesOf(graph_, options_);
    for (NodeId id : OrderOf(graph_, ties_)) EVOQ_TRY(Visit(id));
    moving_.Settle();
    return {};
  }

  QuantizeReport report;
  std::map<std::pair<ValueId, int>, ValueId> done;  // shared weights stay shared
  bool few_bits = false;                            // some weights had few bits already
  std::map<std::string, int> rounded_again;         // weights that had too many, by their type

 private:
  static constexpr int kLowBits = -2, kGiven = -3, kRows = -4;  // in place of an axis

  Status Visit(NodeId id) {
    const Node& node = graph_.node(id);
    if (IsRecurrent(node)) return VisitRecurrent(id);
    if (!as_.products && IsLinear(node)) return {};
    if (IsLinear(node) && ChoosesExperts(graph_, node.outputs[0]))
      return Keep(id, {"router", "it chooses experts: an error there would change whole experts"});
    if (HasMoreBits(node)) EVOQ_TRY(WidenBits(id));
    if (HasFewBits(node)) return TakeFewBits(id);
    const auto tie = ties_.find(id);
    if (tie != ties_.end() && done.contains({tie->second.weight, kLowBits})) {
      // An earlier lookup has rounded it, and nobody reads the float weight any more.
      LookUpTransposed(id, done.at({tie->second.weight, kLowBits}));
      Count(id, as_.low_bits);
      return {};
    }
    if (const auto stored = AsStored(id)) return QuantizeAsStored(id, *stored);
    if (IsLinear(node)) EVOQ_TRY(WidenConstant(graph_, node.input(1)));
    if (tie != ties_.end()) EVOQ_TRY(WidenConstant(graph_, tie->second.weight));
    const auto place = WeightPlaceOf(graph_, node);
    if (!place) return {};
    const ValueId w = tie != ties_.end() ? tie->second.weight : node.input(place->input);
    EVOQ_ASSIGN(const Tensor weight, Widened(graph_.value(w).constant));
    const GivenType* given = GivenFor(options_, graph_.value(w).name);
    if (auto reason = Refusal(weight, node, options_, given)) return Keep(id, std::move(*reason));
    EVOQ_TRY(WithContext(RangeOf(weight), graph_.value(w).name));
    if (given != nullptr) return TakeGiven(id, place->input, weight, *given);
    const bool few = tie != ties_.end() || TakesLowBits(node, weight);
    const LowBits* low = few ? as_.low_bits : nullptr;
    // A tied table is rounded as what the product reads.
    const NodeId reader = tie != ties_.end() ? tie->second.product : id;
    const ValueId q =
        Quantized({.node = graph_.node(reader).name,
                   .weight = graph_.value(w).name,
                   .input = tie != ties_.end() ? 1 : place->input,
                   .values = weight,
                   .low_bits = low,
                   .block = options_.block,
                   .axis = low != nullptr || !options_.per_channel ? -1 : place->axis},
                  w);
    Replace(id, place->input, w, q, low);
    return {};
  }

  // A product whose weight the model's file has in few bits: GGUF, GPTQ, AWQ, Q/DQ, ...
  bool HasFewBits(const Node& node) const {
    if (!IsLinear(node) || !LinearFormOf(node)->two_operands) return false;
    const ValueId w = node.input(1);
    return w.valid() && graph_.value(w).is_constant() && graph_.value(w).type.quantized() &&
           !graph_.value(node.input(0)).type.quantized();
  }

  // Whether such a weight has more bits than the scheme's, which it could have too: what is asked
  // for is smaller.
  bool HasMoreBits(const Node& node) const {
    if (as_.low_bits == nullptr || !HasFewBits(node) || KeptByOptions(node, options_)) return false;
    const Tensor& weight = graph_.value(node.input(1)).constant;
    return DTypeBits(weight.dtype()) > DTypeBits(as_.low_bits->dtype) &&
           TakesLowBits(node, weight) && weight.elements() >= kLeastNarrowed;
  }

  // All who read the weight read the numbers that it stands for, to be rounded again.
  Status WidenBits(NodeId id) {
    const ValueId w = graph_.node(id).input(1);
    const std::string name = graph_.value(w).name;
    EVOQ_ASSIGN(Tensor values, WithContext(ToFloat32(graph_.value(w).constant), name));
    const ValueId wide = graph_.AddConstant(name + ".float32", std::move(values));
    ++rounded_again[DTypeName(graph_.value(w).type.dtype)];
    for (NodeId reader : graph_.order()) {
      if (graph_.node(reader).input(1) == w && HasMoreBits(graph_.node(reader)))
        graph_.SetInput(reader, 1, wide);
    }
    DropUnread(graph_, w);
    return {};
  }

  // The weight stays as it is; where the scheme rounds data, so is that of this product.
  Status TakeFewBits(NodeId id) {
    const Node& node = graph_.node(id);
    if (auto kept = KeptByOptions(node, options_)) return Keep(id, std::move(*kept));
    const TensorType& weight = graph_.value(node.input(1)).type;
    const bool by_rows = weight.quant->block > 0 && weight.quant->axis == 0;
    const int64_t block = DataBlockBeside(by_rows ? weight.quant->block : 0, options_.equal_blocks);
    std::optional<Reason> why_float;
    if (as_.rounding) why_float = RejectBlocks(weight, block);
    const bool rounds = as_.rounding && !why_float;
    if (rounds) graph_.attrs(id).Set(kDataBlock, block);
    few_bits = true;
    graph_.attrs(id).Erase(kFloatReason);
    report.nodes.Add(rounds ? Precision::kInt8 : Precision::kFloat32);
    if (!rounds) CountWeight(weight, report);
    if (why_float) {
      SetFloatReason(graph_.attrs(id), *why_float);
      report.float_reasons[graph_.node(id).name] = std::move(*why_float);
    }
    return {};
  }

  Status VisitRecurrent(NodeId id) {
    if (ComputesRounded(graph_, graph_.node(id))) return {};
    const std::vector<size_t> weights = RecurrentWeights(graph_.node(id));
    bool given = false;
    for (size_t i : weights) {
      const ValueId w = graph_.node(id).input(i);
      EVOQ_TRY(WidenConstant(graph_, w));
      given |= GivenFor(options_, graph_.value(w).name) != nullptr;
    }
    if (auto reason = RecurrentRefusal(graph_, graph_.node(id), options_))
      return Keep(id, std::move(*reason));
    if (given) return TakeGivenRecurrent(id, weights);
    for (size_t i : weights) {
      const ValueId w = graph_.node(id).input(i);
      const std::string name = graph_.value(w).name;
      ValueId& q = done[{w, kRows}];
      if (!q.valid()) {
        EVOQ_ASSIGN(const Tensor real, Widened(graph_.value(w).constant));
        EVOQ_ASSIGN(Tensor rounded,
                    WithContext(QuantizeRecurrent(real, as_.low_bits, options_.block,
                                                  options_.per_channel, options_.threads),
                                name));
        q = AddRounded(name, as_.low_bits, std::move(rounded));
      }
      report.used[name] = graph_.value(q).type;
      graph_.SetInput(id, i, q);
      DropUnread(graph_, w);
    }
    std::optional<Reason> why_float;
    if (as_.rounding) why_float = FloatProductsReason(graph_, graph_.node(id));
    const bool rounds = as_.rounding && !why_float;
    if (rounds)
      graph_.attrs(id).Set(kDataBlock,
                           RecurrentDataBlock(graph_, graph_.node(id), as_.low_bits, options_));
    Count(id, rounds, as_.low_bits);
    if (why_float) {
      SetFloatReason(graph_.attrs(id), *why_float);
      report.float_reasons[graph_.node(id).name] = std::move(*why_float);
    }
    return {};
  }

  // Weights as they were given; the operator computes in float32.
  Status TakeGivenRecurrent(NodeId id, const std::vector<size_t>& weights) {
    for (size_t i : weights) {
      const ValueId w = graph_.node(id).input(i);
      const GivenType* given = GivenFor(options_, graph_.value(w).name);
      if (given == nullptr || given->real) continue;
      EVOQ_ASSIGN(const Tensor real, Widened(graph_.value(w).constant));
      ValueId& q = done[{w, kGiven}];
      if (!q.valid()) {
        EVOQ_ASSIGN(q, AddGivenWeight(graph_, w, real, *given, report));
      }
      graph_.SetInput(id, i, q);
      DropUnread(graph_, w);
      CountWeight(graph_.value(q).type, report);
    }
    report.nodes.Add(Precision::kFloat32);
    return {};
  }

  Status Keep(NodeId id, Reason reason) {
    report.nodes.Add(Precision::kFloat32);
    SetFloatReason(graph_.attrs(id), reason);
    report.float_reasons[graph_.node(id).name] = std::move(reason);
    return {};
  }

  // A weight of 16 bits that is rounded as it lies in the file: a matrix.
  struct Stored {
    ValueId weight;  // what the node reads
    size_t input;
    StoredMatrix matrix;
    const LowBits* low;  // null: int8
    int axis;
  };

  // The node's weight, where no copy in float32 is needed to round it: none of it is given or
  // rounded by a method.
  std::optional<Stored> AsStored(NodeId id) const {
    const Node& node = graph_.node(id);
    const auto tie = ties_.find(id);
    const bool table = tie == ties_.end() && IsConstantTable(graph_, node);
    if (options_.round || (table && node.attrs.Int("axis", 0) != 0)) return std::nullopt;
    if (!table && tie == ties_.end() && !(IsLinear(node) && LinearFormOf(node)->two_operands))
      return std::nullopt;
    const size_t input = table || tie != ties_.end() ? 0 : 1;
    const ValueId w = tie != ties_.end() ? tie->second.weight : node.input(input);
    const WeightSource source = table ? WeightSource{w} : SourceOf(graph_, w);
    if (!source.constant.valid() || GivenFor(options_, graph_.value(w).name) != nullptr)
      return std::nullopt;
    const Tensor& values = graph_.value(source.constant).constant;
    if (values.shape().rank() != 2 || !IsNarrow(values) ||
        Refusal(values, node, options_, /*given=*/nullptr))
      return std::nullopt;
    const LowBits* low = table ? nullptr : as_.low_bits;
    const bool by_rows = table || source.transposed || !options_.per_channel;
    if (low == nullptr && !by_rows) return std::nullopt;
    const int axis = low != nullptr || !options_.per_channel ? -1 : table ? 0 : 1;
    return Stored{w, input, {values, source.transposed}, low, axis};
  }

  Status QuantizeAsStored(NodeId id, const Stored& stored) {
    const std::string name = graph_.value(stored.weight).name;
    ValueId& q = done[{stored.weight, stored.low != nullptr ? kLowBits : stored.axis}];
    if (!q.valid()) {
      const auto round = [&] {
        return stored.low != nullptr
                   ? stored.low->Quantize(stored.matrix, options_.block, options_.threads)
                   : QuantizeStored(stored.matrix, stored.axis, options_.threads);
      };
      EVOQ_ASSIGN(Tensor rounded, WithContext(round(), name));
      ReleasePages(stored.matrix.stored);
      q = AddRounded(name, stored.low, std::move(rounded));
    }
    report.used[name] = graph_.value(q).type;
    Replace(id, stored.input, stored.weight, q, stored.low);
    return {};
  }

  // The node reads `q` in place of its weight `w`.
  void Replace(NodeId id, size_t input, ValueId w, ValueId q, const LowBits* low) {
    if (ties_.contains(id)) {
      LookUpTransposed(id, q);
    } else {
      graph_.SetInput(id, input, q);
    }
    DropUnread(graph_, w);
    Count(id, low);
  }

  ValueId AddRounded(const std::string& weight, const LowBits* low, Tensor q) {
    const ValueId value = graph_.AddConstant(
        fmt::format("{}.{}", weight, low != nullptr ? low->name : "int8"), std::move(q));
    moving_.Take(value);
    return value;
  }

  Status TakeGiven(NodeId id, size_t input, const Tensor& weight, const GivenType& given) {
    const ValueId w = graph_.node(id).input(input);
    ValueId& q = done[{w, kGiven}];
    if (!q.valid()) {
      EVOQ_ASSIGN(q, AddGivenWeight(graph_, w, weight, given, report));
    }
    graph_.SetInput(id, input, q);
    DropUnread(graph_, w);
    CountWeight(graph_.value(q).type, report);
    report.nodes.Add(Precision::kFloat32);
    return {};
  }

  ValueId Quantized(const WeightRounding& rounding, ValueId w) {
    ValueId& q = done[{w, rounding.low_bits != nullptr ? kLowBits : rounding.axis}];
    if (!q.valid()) q = AddRounded(rounding.weight, rounding.low_bits, Rounded(options_, rounding));
    report.used[rounding.weight] = graph_.value(q).type;
    return q;
  }

  // The node looks up rows of the transposed `weight`, which stays one constant: pass share-tables.
  void LookUpTransposed(NodeId id, ValueId weight) {
    const ValueId table = graph_.node(id).input(0);
    Attrs swap = Attrs::Of("perm", std::vector<int64_t>{1, 0});
    const Shape& shape = graph_.value(weight).type.shape;
    const ValueId rows =
        graph_.Apply("Transpose", graph_.node(id).name + "_rows", {weight}, std::move(swap),
                     TensorType(DType::kFloat32, Shape(std::vector<Dim>{shape[1], shape[0]})));
    graph_.SetInput(id, 0, rows);
    DropUnread(graph_, table);
  }

  void Count(NodeId id, const LowBits* low) {
    const Node& node = graph_.node(id);
    const TensorType& x = graph_.value(node.input(0)).type;
    bool rounds = as_.rounding && (low != nullptr || as_.rounds_beside_int8) && IsLinear(node) &&
                  x.dtype == DType::kFloat32 && !x.quantized() && !LogarithmReason(graph_, node);
    const int64_t block =
        DataBlockBeside(low != nullptr ? options_.block : 0, options_.equal_blocks);
    if (low == nullptr)
      rounds = rounds && LinearFormOf(node)->two_operands &&
               !RejectBlocks(graph_.value(node.input(1)).type, block);
    if (rounds) graph_.attrs(id).Set(kDataBlock, block);
    Count(id, rounds, low);
  }
  void Count(NodeId id, bool rounds, const LowBits* low) {
    graph_.attrs(id).Erase(kFloatReason);
    report.nodes.Add(rounds ? Precision::kInt8 : Precision::kFloat32);
    if (!rounds) ++(low != nullptr ? report.low_bit_weights[low->name] : report.int8_weights);
  }

  Graph& graph_;
  const QuantizeOptions& options_;
  WeightsAs as_;
  std::map<NodeId, Tie> ties_;
  MovingOut moving_{graph_, MovingOut::To::kSpill};
};

// Adds what a subgraph's report says, under names that begin with `prefix`.
void Join(const QuantizeReport& body, const std::string& prefix, QuantizeReport& report) {
  report.int8_weights += body.int8_weights;
  report.nodes.Add(Precision::kInt8, body.nodes[Precision::kInt8]);
  report.nodes.Add(Precision::kFloat32, body.int8_weights);
  for (const auto& [name, count] : body.low_bit_weights) {
    report.low_bit_weights[name] += count;
    report.nodes.Add(Precision::kFloat32, count);
  }
  for (const auto& [name, reason] : body.float_reasons)
    report.float_reasons[prefix + name] = reason;
  report.used.insert(body.used.begin(), body.used.end());
}

}  // namespace

bool HasCaches(const Graph& graph) {
  return std::ranges::any_of(graph.order(), [&](NodeId id) {
    const Node& node = graph.node(id);
    return node.op == "Attention" && (node.input(kPastKey).valid() || node.input(kLengths).valid());
  });
}

Result<QuantizeReport> QuantizeBodies(Graph& graph, const QuantizeOptions& options, WeightsAs as) {
  QuantizeOptions nearest = options;
  nearest.round = nullptr;  // methods know the layers of the model by names, which a body may share
  QuantizeReport report;
  const std::vector<NodeId> nodes = graph.order();
  for (NodeId id : nodes) {
    for (size_t i = 0; i < graph.node(id).bodies.size(); ++i) {
      Graph body = *graph.node(id).bodies[i];
      WeightsQuantizer quantizer(body, nearest, as);
      EVOQ_TRY(WithContext(quantizer.Run(), graph.node(id).name));
      EVOQ_ASSIGN(const QuantizeReport inner, QuantizeBodies(body, nearest, as));
      const std::string prefix = graph.node(id).name + "/";
      Join(quantizer.report, prefix, report);
      Join(inner, prefix, report);
      if (quantizer.done.empty() && inner.used.empty()) continue;
      EVOQ_TRY(body.Sort());
      body.RemoveDeadNodes();
      graph.SetBody(id, i, std::make_shared<const Graph>(body.Compacted()));
    }
  }
  return report;
}

Result<QuantizeReport> QuantizeWeights(Graph& graph, const QuantizeOptions& options, WeightsAs as) {
  if (as.products) EVOQ_TRY(TurnForWeights(graph, {}, options));
  WeightsQuantizer quantizer(graph, options, as);
  EVOQ_TRY(quantizer.Run());
  QuantizeReport& report = quantizer.report;
  bool nothing = quantizer.done.empty() && !quantizer.few_bits;
  if (as.products) {
    EVOQ_ASSIGN(const QuantizeReport bodies, QuantizeBodies(graph, options, as));
    Join(bodies, "", report);
    nothing = nothing && bodies.used.empty();
  }
  if (nothing)
    report.warnings.push_back(
        fmt::format("no weight became {}int8: the model is unchanged",
                    as.low_bits == nullptr ? "" : fmt::format("{} or ", as.low_bits->name)));
  for (const auto& [type, count] : quantizer.rounded_again)
    report.warnings.push_back(
        fmt::format("weights that had few bits already were rounded again, to {} ({} of {})",
                    as.low_bits->name, count, type));
  NoteNotUsed(options, "the scheme quantizes weights only", report);
  EVOQ_TRY(graph.Sort());
  graph.RemoveDeadNodes();  // what widened weights that were rounded as they lie
  graph = graph.Compacted();
  EVOQ_TRY(InferTypes(graph));
  EVOQ_TRY(graph.Verify());
  return std::move(report);
}

}  // namespace evoq
