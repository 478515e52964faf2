// QuantizeStatic: types, weights and conversions for the nodes that the plan makes integer.
#include <algorithm>
#include <cmath>

#include "graph/float_reason.h"
#include "graph/value_sets.h"
#include "passes/linear.h"
#include "passes/match.h"
#include "passes/qdq_bias.h"
#include "quant/activation_bits.h"
#include "quant/equalize.h"
#include "quant/given.h"
#include "quant/layer_bits.h"
#include "quant/params.h"
#include "quant/plain_arithmetic.h"
#include "quant/plan.h"
#include "quant/quant.h"
#include "quant/recurrent_weights.h"
#include "quant/turn_product.h"
#include "quant/unfuse.h"
#include "reference/reference.h"

namespace evoq {
namespace {

constexpr char kNothingInteger[] = "no node became integer arithmetic";

class StaticQuantizer {
 public:
  StaticQuantizer(Graph& graph, const Ranges& ranges, const QuantizeOptions& options)
      : graph_(graph), ranges_(ranges), asked_(options), options_(options) {}

  Status Split() {
    if (options_.activation != DType::kUint8 && options_.activation != DType::kInt8) {
      return Fail(ErrorCode::kUsage, "activations of {}, expected uint8 or int8",
                  DTypeName(options_.activation));
    }
    if (options_.target && options_.target->symmetric) {
      options_.activation = DType::kInt8;
      options_.symmetric_activations = true;
    }
    EVOQ_ASSIGN(given_, PlaceGiven(graph_, options_, ranges_, report_));
    EVOQ_TRY(SplitAttentions());
    EVOQ_TRY(TurnProducts(graph_, options_, kWorkOfBytes, &ranges_));
    if (options_.target && options_.target->split_residual) EVOQ_TRY(SplitResiduals());
    EVOQ_TRY(SplitActivations());
    return TakePlainArithmetic();
  }

  Result<QuantizeReport> Run() {
    EVOQ_TRY(Split());
    EVOQ_TRY(TakeSlopes());
    plan_ = MakePlan(graph_, ranges_, options_);
    // Scales of given weights are of the weights as they are.
    if (options_.equalize && options_.per_channel && options_.given.empty())
      EqualizeChannels(graph_, plan_.integer, ranges_);
    MakePadsExplicit();
    MarkQuantized();
    EVOQ_TRY(ChooseParams());
    const std::vector<NodeId> nodes = graph_.order();
    EVOQ_TRY(MakeIntegerForms());
    HoldLevelsOfResults();
    for (NodeId id : nodes) {
      if (!plan_.integer.count(id)) continue;
      const std::vector<ValueId> inputs = graph_.node(id).inputs;
      for (size_t i = 0; i < inputs.size(); ++i) {
        if (ReadsInteger(id, i)) graph_.SetInput(id, i, FormFor(id, inputs[i]));
      }
      if (IsLinear(graph_.node(id)) && !HasComputedOperand(graph_, graph_.node(id)))
        EVOQ_TRY(QuantizeWeights(id));
    }
    EVOQ_TRY(QuantizeFloatNodesGiven(graph_, options_, report_));
    for (const auto& [id, reason] : plan_.reasons) SetFloatReason(graph_.attrs(id), reason);
    FillReport();
    EVOQ_TRY(graph_.Sort());
    graph_ = graph_.Compacted();
    EVOQ_TRY(InferTypes(graph_));
    EVOQ_TRY(graph_.Verify());
    return std::move(report_);
  }

 private:
  // PRelu becomes the activation of integer products. A runtime that computes in integers what
  // stands between two Q/DQ pairs wants one of them before it.
  Status TakeSlopes() {
    if (options_.target && options_.target->quantize_results) return {};
    const std::vector<NodeId> nodes = graph_.order();
    for (NodeId id : nodes) {
      if (!graph_.alive(id)) continue;
      const auto behind = SlopesBehind(graph_, id);
      if (behind && !KeptByOptions(graph_.node(behind->first), options_) &&
          !options_.given.count(graph_.value(graph_.node(id).outputs[0]).name))
        evoq::TakeSlopes(graph_, id);
    }
    const QuantPlan plan = MakePlan(graph_, ranges_, options_);
    const std::vector<NodeId> fused = graph_.order();
    for (NodeId id : fused) {
      if (!plan.integer.count(id) && HasSlopes(graph_.node(id))) SplitActivation(graph_, id);
    }
    EVOQ_TRY(graph_.Sort());
    return InferTypes(graph_);
  }

  // Of what computes with integers that way; other nodes stay as they are.
  Status TakePlainArithmetic() {
    if (!options_.given.empty()) return {};
    const auto rewritten = MakeArithmeticPlain(graph_);
    if (rewritten.empty()) return {};
    const QuantPlan plan = MakePlan(graph_, ranges_, options_);
    for (const PlainArithmetic& node : rewritten) {
      if (!plan.integer.count(node.node)) Undo(graph_, node);
    }
    EVOQ_TRY(graph_.Sort());
    return InferTypes(graph_);
  }

  Status SplitAttentions() {
    const std::vector<NodeId> nodes = graph_.order();
    for (NodeId id : nodes) {
      const Node& node = graph_.node(id);
      if (IsPlainAttention(graph_, node) && ranges_.count(AttentionWeightsName(node)) &&
          !KeptByOptions(node, options_))
        SplitAttention(graph_, id);
    }
    EVOQ_TRY(graph_.Sort());
    return InferTypes(graph_);
  }

  Status SplitResiduals() {
    const QuantPlan plan = MakePlan(graph_, ranges_, options_);
    for (NodeId id : plan.integer) {
      const Node& node = graph_.node(id);
      if (!HasResidual(node)) continue;
      const std::string product = graph_.value(node.outputs[0]).name + ".product";
      if (ranges_.count(product)) {
        SplitResidual(graph_, id);
      } else {
        report_.warnings.push_back(fmt::format(
            "{} was not calibrated: its sum with the residual stays in float32", product));
      }
    }
    EVOQ_TRY(graph_.Sort());
    return InferTypes(graph_);
  }

  Status SplitActivations() {
    if (options_.target && !options_.target->split_activation) return {};
    const QuantPlan plan = MakePlan(graph_, ranges_, options_);
    for (NodeId id : plan.integer) {
      const Node& node = graph_.node(id);
      const bool foreign = options_.target && HasForeignActivation(node) &&
                           ranges_.count(graph_.value(node.outputs[0]).name + ".linear");
      if (HasTableActivation(node) || foreign) SplitActivation(graph_, id);
    }
    EVOQ_TRY(graph_.Sort());
    return InferTypes(graph_);
  }

  // A Pad without a fill value fills with the real 0, which is not the stored 0.
  void MakePadsExplicit() {
    for (NodeId id : plan_.integer) {
      const Node& node = graph_.node(id);
      if (node.op != "Pad" || node.input(2).valid() ||
          node.attrs.String("mode", "constant") != "constant")
        continue;
      graph_.SetInput(id, 2, graph_.AddConstant(node.name + ".fill", Tensor::Scalar<float>(0)));
    }
  }

  // Whether the integer node reads input i as integers. A linear operator with a float32 output has
  // a float32 residual.
  bool ReadsInteger(NodeId id, size_t i) const {
    const Node& node = graph_.node(id);
    if (!plan_.integer.count(id) || !node.input(i).valid()) return false;
    if (IsLinear(node))
      return i == 0 || (i == 1 && HasComputedOperand(graph_, node)) ||
             (i == 3 && quantized_.count(node.outputs[0]));
    const auto real = RealInputs(graph_, node);
    return std::find(real.begin(), real.end(), i) != real.end();
  }

  bool HasIntegerReader(ValueId v) const {
    for (NodeId user : graph_.value(v).users) {
      for (size_t i = 0; i < graph_.node(user).inputs.size(); ++i) {
        if (graph_.node(user).inputs[i] == v && ReadsInteger(user, i)) return true;
      }
    }
    return false;
  }

  // Backwards, because whether an output is an integer depends on its readers.
  void MarkQuantized() {
    for (ValueId v : given_) {
      if (Everywhere(v)) quantized_.insert(v);
    }
    const auto& order = graph_.order();
    for (auto it = order.rbegin(); it != order.rend(); ++it) {
      const Node& node = graph_.node(*it);
      if (!plan_.integer.count(*it)) continue;
      for (ValueId y : node.outputs) {
        const bool wanted =
            !IsLinear(node) || HasIntegerReader(y) ||
            (node.op == "Conv" && options_.target && options_.target->quantize_results &&
             ranges_.count(graph_.value(y).name));
        if (y.valid() && graph_.value(y).type.dtype == DType::kFloat32 && wanted) {
          quantized_.insert(y);
        }
      }
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        if (ReadsInteger(*it, i)) quantized_.insert(node.inputs[i]);
      }
    }
  }

  // A second operand without a zero point saves the first one's row sums, and costs little where
  // the range is nearly even.
  static bool IsBalanced(const Range& range) {
    return range.min * -1.25f > range.max && range.max * 1.25f > -range.min;
  }

  Status ChooseParams() {
    ValueSets groups(graph_.value_count());          // of values that share their parameters
    std::map<int, TensorType> given = GivenBytes();  // by group
    for (NodeId id : plan_.integer) {
      const Node& node = graph_.node(id);
      if (!MovesOnly(node)) continue;
      const ValueId first = node.outputs[0];
      for (size_t i : RealInputs(graph_, node)) Join(node.inputs[i], first, groups, given);
      for (ValueId y : node.outputs) {
        if (y.valid()) Join(y, first, groups, given);
      }
    }
    std::map<int, Range> ranges;
    for (ValueId v : quantized_) {
      const Value& value = graph_.value(v);
      Range r;
      if (value.is_constant()) {
        EVOQ_ASSIGN(r, WithContext(RangeOf(value.constant), value.name));
      } else if (auto it = ranges_.find(value.name); it != ranges_.end()) {
        r = it->second;
      }
      auto [it, fresh] = ranges.emplace(groups.Find(v), r);
      if (!fresh) it->second = {std::min(it->second.min, r.min), std::max(it->second.max, r.max)};
    }
    std::set<int> balanced;
    for (NodeId id : plan_.integer) {
      if (HasComputedOperand(graph_, graph_.node(id)) &&
          IsBalanced(ranges.at(groups.Find(graph_.node(id).input(1)))))
        balanced.insert(groups.Find(graph_.node(id).input(1)));
    }
    const std::map<int, int> bits = BitsOfGroups(groups);
    for (ValueId v : quantized_) {
      const int group = groups.Find(v);
      const Shape& shape = graph_.value(v).type.shape;
      const auto few = bits.find(group);
      if (few != bits.end()) result_bits_[v] = few->second;
      if (const auto type = given.find(group); type != given.end()) {
        types_[v] = TensorType(type->second.dtype, shape, *type->second.quant);
        continue;
      }
      const QuantParams params =
          LevelParams(ranges.at(group), options_.activation, few != bits.end() ? few->second : 8,
                      options_.symmetric_activations || balanced.count(group));
      types_[v] = TensorType(options_.activation, shape, params);
    }
    SettleOutputsOfMoves();
    return {};
  }

  // Of a value that an operator computes: how many bits of its type it uses.
  int BitsOfResult(ValueId v) const {
    const Value& value = graph_.value(v);
    if (!value.producer.valid() || !plan_.integer.count(value.producer)) return 8;
    const Node& node = graph_.node(value.producer);
    if (!CanHoldLevels(node)) return 8;
    if (const GivenType* given = GivenFor(options_, value.name); given != nullptr)
      return given->held ? given->bits : 8;
    return BitsOf(options_.activation_bits, node.name);
  }

  // By group, those with fewer than 8: all that compute its numbers keep them so.
  std::map<int, int> BitsOfGroups(ValueSets& groups) const {
    std::map<int, int> bits;
    for (ValueId v : quantized_) {
      const NodeId producer = graph_.value(v).producer;
      if (producer.valid() && plan_.integer.count(producer) && MovesOnly(graph_.node(producer)))
        continue;
      const auto [it, fresh] = bits.emplace(groups.Find(v), BitsOfResult(v));
      if (!fresh) it->second = std::max(it->second, BitsOfResult(v));
    }
    std::erase_if(bits, [](const auto& group) { return group.second >= 8; });
    return bits;
  }

  void HoldLevelsOfResults() {
    for (const auto& [v, bits] : result_bits_) {
      const Value& value = graph_.value(v);
      report_.activation_bits[value.name] = bits;
      if (value.producer.valid() && IsLinear(graph_.node(value.producer)))
        HoldLevels(graph_.attrs(value.producer), types_.at(v), bits);
    }
  }

  bool Everywhere(ValueId given) const {
    return GivenFor(options_, graph_.value(given).name)->everywhere;
  }

  // The given types of values that are alone in their groups.
  std::map<int, TensorType> GivenBytes() const {
    std::map<int, TensorType> types;
    for (ValueId v : given_) {
      const GivenType& type = *GivenFor(options_, graph_.value(v).name);
      types[v.index] = TensorType(type.dtype, Shape::UnknownRank(), type.params);
    }
    return types;
  }

  // Joins two groups, unless they were given different types: there the operator that moves
  // numbers from one to the other requantizes (FormFor).
  static void Join(ValueId a, ValueId b, ValueSets& groups, std::map<int, TensorType>& given) {
    const int from = groups.Find(a), into = groups.Find(b);
    const auto one = given.find(from), other = given.find(into);
    if (one != given.end() && other != given.end() && !SameQuant(one->second, other->second))
      return;
    const auto type = one != given.end() ? one : other;
    groups.Join(a, b);
    if (type != given.end()) given[groups.Find(b)] = TensorType(type->second);
  }

  // An operator with several outputs gives all of them the type of the first.
  void SettleOutputsOfMoves() {
    for (NodeId id : plan_.integer) {
      const Node& node = graph_.node(id);
      if (!MovesOnly(node)) continue;
      const TensorType& first = types_.at(node.outputs[0]);
      for (ValueId y : node.outputs) {
        if (!y.valid() || SameQuant(types_.at(y), first)) continue;
        report_.not_used[graph_.value(y).name] =
            fmt::format("{} gives all its outputs the parameters of the first", node.name);
        types_[y] = TensorType(first.dtype, graph_.value(y).type.shape, *first.quant);
      }
    }
  }

  // What an integer node reads in place of a value: its integers, requantized for an operator that
  // only moves numbers and whose output was given other parameters.
  ValueId FormFor(NodeId id, ValueId v) {
    const Node& node = graph_.node(id);
    const ValueId form = integer_form_.at(v);
    if (!MovesOnly(node) || SameQuant(types_.at(v), types_.at(node.outputs[0]))) return form;
    TensorType type = types_.at(node.outputs[0]);
    type.shape = types_.at(v).shape;
    return graph_.Apply("QuantizeLinear", graph_.value(form).name + ".requantize", {form}, {},
                        type);
  }

  // Types what integer nodes compute, quantizes what they read from elsewhere, dequantizes what
  // others read from them.
  Status MakeIntegerForms() {
    for (ValueId v : quantized_) {
      const Value value = graph_.value(v);
      if (value.is_constant()) {
        EVOQ_ASSIGN(Tensor q, QuantizeTensor(value.constant, types_[v]));
        integer_form_[v] = graph_.AddConstant(value.name + ".int8", std::move(q));
      } else if (!plan_.integer.count(value.producer)) {
        integer_form_[v] =
            graph_.Apply("QuantizeLinear", value.name + ".quantize", {v}, {}, types_[v]);
        if (given_.count(v) && Everywhere(v)) RoundForOthers(v);
      } else {
        Dequantize(v);
      }
      real_name_[integer_form_[v]] = value.name;
      report_.used[value.name] = types_[v];
    }
    return {};
  }

  void Dequantize(ValueId v) {
    std::vector<std::pair<NodeId, size_t>> integer_readers;
    bool float_readers = graph_.IsOutput(v);
    for (NodeId user : graph_.value(v).users) {
      for (size_t i = 0; i < graph_.node(user).inputs.size(); ++i) {
        if (graph_.node(user).inputs[i] != v) continue;
        if (ReadsInteger(user, i)) {
          integer_readers.emplace_back(user, i);
        } else {
          float_readers = true;
        }
      }
    }
    const TensorType real = graph_.value(v).type;
    graph_.SetType(v, types_[v]);
    integer_form_[v] = v;
    if (!float_readers) return;
    const std::string name = graph_.value(v).name;
    const ValueId real_form = graph_.AddValue(name + ".dequantized", real);
    graph_.ReplaceUses(v, real_form);
    for (const auto& [user, i] : integer_readers) graph_.SetInput(user, i, v);
    graph_.AddNode({.op = "DequantizeLinear",
                    .name = name + ".dequantize",
                    .inputs = {v},
                    .outputs = {real_form}});
  }

  // Readers of real numbers see a given value, which a float node or the caller gives, as its
  // integers have it.
  void RoundForOthers(ValueId v) {
    const std::vector<NodeId> users = graph_.value(v).users;
    const std::string name = graph_.value(v).name;
    const NodeId quantize = graph_.value(integer_form_[v]).producer;
    ValueId rounded;
    const auto form = [&] {
      if (!rounded.valid())
        rounded = graph_.Apply("DequantizeLinear", name + ".dequantize", {integer_form_[v]}, {},
                               graph_.value(v).type);
      return rounded;
    };
    for (NodeId user : users) {
      if (user == quantize) continue;
      for (size_t i = 0; i < graph_.node(user).inputs.size(); ++i) {
        if (graph_.node(user).inputs[i] == v && !ReadsInteger(user, i))
          graph_.SetInput(user, i, form());
      }
    }
    for (size_t i = 0; i < graph_.outputs().size(); ++i) {
      if (graph_.outputs()[i] == v && !graph_.IsInput(v)) graph_.ReplaceOutput(i, form());
    }
  }

  Status QuantizeWeights(NodeId id) {
    const Node& node = graph_.node(id);
    const ValueId w = node.input(1), b = node.input(2);
    const Tensor weight = graph_.value(w).constant;
    const float scale_x = graph_.value(node.input(0)).type.quant->scales[0];
    const std::vector<float> least =
        b.valid() ? LeastWeightScales(graph_.value(b).constant, scale_x) : std::vector<float>();
    // Channels of grouped ConvTranspose share scales: the largest lower bound of all is safe.
    const int axis = options_.per_channel ? WeightAxis(node, weight.shape().rank()) : -1;
    const bool per_channel =
        axis >= 0 && weight.sizes()[axis] == static_cast<int64_t>(least.size());
    const float largest = least.empty() ? 0 : *std::max_element(least.begin(), least.end());
    const GivenType* given = GivenFor(options_, graph_.value(w).name);
    Tensor q;
    if (given != nullptr) {
      EVOQ_ASSIGN(q, WithContext(QuantizeGiven(weight, *given), graph_.value(w).name));
      report_.used[graph_.value(w).name] = q.type();
      if (b.valid() && DTypeBits(q.dtype()) < 8) q = FinerWeights(q).value_or(q);
    } else {
      q = Rounded(options_, {.node = node.name,
                             .weight = graph_.value(w).name,
                             .values = weight,
                             .axis = axis,
                             .least_scale = per_channel ? least : std::vector{largest}});
    }
    report_.used.emplace(graph_.value(w).name, q.type());
    Tensor bias = b.valid() ? graph_.value(b).constant : Tensor();
    const std::string name = b.valid() ? graph_.value(b).name : node.name + ".bias";
    if (given == nullptr && !options_.compensated.contains(graph_.value(w).name))
      CorrectBias(node, weight, q, bias);
    const bool float_bias = options_.target && options_.target->symmetric;
    if (bias.defined() && float_bias) graph_.SetInput(id, 2, graph_.AddConstant(name, bias));
    if (bias.defined() && !float_bias)
      graph_.SetInput(
          id, 2, graph_.AddConstant(name + ".int32", QuantizeBias(bias, scale_x, *q.type().quant)));
    if (b.valid() && !float_bias) NoteBias(name, bias.shape(), scale_x, *q.type().quant);
    graph_.SetInput(id, 1, SharedConstant(w, q));
    return {};
  }

  // A bias has the scale of its sums, whatever it was given.
  void NoteBias(const std::string& name, const Shape& shape, float scale_x,
                const QuantParams& weight) {
    const TensorType& type = report_.used[name] = ImpliedBiasType(shape, scale_x, weight);
    const GivenType* given = GivenFor(options_, name);
    if (given == nullptr || given->real || given->dtype != DType::kInt32) return;
    const std::vector<float>&asked = given->params.scales, &made = type.quant->scales;
    for (size_t c = 0; c < std::max(asked.size(), made.size()); ++c) {
      const float a = asked[c % asked.size()], m = made[c % made.size()];
      if (std::fabs(a - m) <= 1e-5f * m) continue;
      report_.not_used[name] =
          fmt::format("a bias has the scale of its sums, data times weights: {}, not {}", m, a);
      return;
    }
  }

  // The quantized form of a weight: one for all readers that agree on it.
  ValueId SharedConstant(ValueId weight, const Tensor& q) {
    std::vector<ValueId>& forms = weight_forms_[weight];
    auto form = std::find_if(forms.begin(), forms.end(),
                             [&](ValueId v) { return BitEqual(graph_.value(v).constant, q); });
    if (form == forms.end())
      form = forms.insert(form, graph_.AddConstant(graph_.value(weight).name + ".int8", q));
    return *form;
  }

  // Takes the mean error that rounding the weights causes off the bias, which is made where there
  // is none.
  void CorrectBias(const Node& node, const Tensor& weight, const Tensor& q, Tensor& bias) const {
    const auto range = ranges_.find(real_name_.at(node.input(0)));
    if (!options_.correct_bias || range == ranges_.end()) return;
    const std::vector<double> errors =
        WeightErrorMeans(node, weight, q, range->second.channel_means);
    if (errors.empty()) return;
    Tensor corrected =
        Tensor::Allocate(TensorType(DType::kFloat32, Shape{static_cast<int64_t>(errors.size())}));
    for (size_t m = 0; m < errors.size(); ++m) {
      corrected.mutable_data<float>()[m] =
          static_cast<float>((bias.defined() ? bias.values<float>()[m] : 0.0f) - errors[m]);
    }
    bias = std::move(corrected);
  }

  void FillReport() {
    MarkWeightBits(graph_, asked_.weight_bits);
    report_.nodes.Add(Precision::kInt8, static_cast<int>(plan_.integer.size()) + plan_.already);
    report_.nodes.Add(Precision::kFloat32, static_cast<int>(plan_.reasons.size()));
    for (const auto& [id, reason] : plan_.reasons)
      report_.float_reasons[graph_.node(id).name] = reason;
    NoteNotUsed(asked_, "no operator that becomes integer arithmetic has it", report_);
    report_.already = plan_.already;
    const bool given = std::ranges::any_of(
        report_.used, [&](const auto& use) { return asked_.given.contains(use.first); });
    if (plan_.integer.empty())
      report_.warnings.push_back(fmt::format(
          "{}{}: {}", kNothingInteger,
          plan_.already > 0 ? fmt::format(", {} computed with integers before", plan_.already) : "",
          given ? "values are rounded as the parameters say, and computed with in float32"
                : "the model is unchanged"));
  }

  Graph& graph_;
  Ranges ranges_;  // a copy: equalizing changes channels
  const QuantizeOptions& asked_;
  QuantizeOptions options_;  // a copy: the target may ask for other activations
  QuantPlan plan_;
  std::set<ValueId> given_;                               // values that were given a type of 8 bits
  std::set<ValueId> quantized_;                           // values that have an integer form
  std::map<ValueId, TensorType> types_;                   // of those forms
  std::map<ValueId, int> result_bits_;                    // of those that use fewer than 8
  std::map<ValueId, ValueId> integer_form_;               // the value itself, or its quantized copy
  std::map<ValueId, std::vector<ValueId>> weight_forms_;  // of a weight, by its float32 constant
  std::map<ValueId, std::string> real_name_;  // of an integer form: the name in the ranges
  QuantizeReport report_;
};

// Recurrent operators and tables, which have no scales from calibration, also those of subgraphs:
// joins what becomes of them to `report`.
Status QuantizeRest(Graph& graph, const QuantizeOptions& options, QuantizeReport& report) {
  EVOQ_ASSIGN(QuantizeReport rest,
              QuantizeWeights(graph, options, {.rounding = true, .products = false}));
  EVOQ_ASSIGN(const QuantizeReport bodies,
              QuantizeBodies(graph, options, {.rounding = true, .products = false}));
  for (const auto& [name, reason] : rest.float_reasons) report.float_reasons[name] = reason;
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (!FloatReasonOf(node.attrs).empty() || report.float_reasons.erase(node.name) == 0) continue;
    report.nodes.Add(Precision::kFloat32, -1);
    report.nodes.Add(ComputesRounded(graph, node) ? Precision::kInt8 : Precision::kFloat32);
  }
  for (Precision p : {Precision::kInt8, Precision::kFloat32}) report.nodes.Add(p, bodies.nodes[p]);
  report.int8_weights += rest.int8_weights + bodies.int8_weights;
  report.float_reasons.insert(bodies.float_reasons.begin(), bodies.float_reasons.end());
  rest.used.insert(bodies.used.begin(), bodies.used.end());
  for (const auto& [name, type] : rest.used) {
    report.used[name] = type;
    report.not_used.erase(name);
  }
  if (!rest.used.empty())
    std::erase_if(report.warnings,
                  [](const std::string& warning) { return warning.starts_with(kNothingInteger); });
  return {};
}

}  // namespace

Status SplitForStatic(Graph& graph, const Ranges& ranges, const QuantizeOptions& options) {
  return StaticQuantizer(graph, ranges, options).Split();
}

Result<QuantizeReport> QuantizeStatic(Graph& graph, const Ranges& ranges,
                                      const QuantizeOptions& options) {
  EVOQ_ASSIGN(QuantizeReport report, StaticQuantizer(graph, ranges, options).Run());
  if (options.target == nullptr) EVOQ_TRY(QuantizeRest(graph, options, report));
  return report;
}

}  // namespace evoq
