// QuantizeStatic: types, weights and conversions for the nodes that the plan makes integer.
#include <algorithm>

#include "graph/float_reason.h"
#include "graph/value_sets.h"
#include "quant/equalize.h"
#include "quant/params.h"
#include "quant/plan.h"
#include "quant/quant.h"
#include "quant/unfuse.h"
#include "reference/reference.h"

namespace evoq {
namespace {

class StaticQuantizer {
 public:
  StaticQuantizer(Graph& graph, const Ranges& ranges, const QuantizeOptions& options)
      : graph_(graph), ranges_(ranges), options_(options) {}

  Result<QuantizeReport> Run() {
    if (options_.activation != DType::kUint8 && options_.activation != DType::kInt8) {
      return Fail(ErrorCode::kUsage, "activations of {}, expected uint8 or int8",
                  DTypeName(options_.activation));
    }
    if (options_.target && options_.target->symmetric) {
      options_.activation = DType::kInt8;
      options_.symmetric_activations = true;
    }
    if (options_.target && options_.target->split_residual) EVOQ_TRY(SplitResiduals());
    EVOQ_TRY(SplitActivations());
    plan_ = MakePlan(graph_, ranges_, options_);
    if (options_.equalize && options_.per_channel) EqualizeChannels(graph_, plan_.integer, ranges_);
    MakePadsExplicit();
    MarkQuantized();
    EVOQ_TRY(ChooseParams());
    const std::vector<NodeId> nodes = graph_.order();
    EVOQ_TRY(MakeIntegerForms());
    for (NodeId id : nodes) {
      if (!plan_.integer.count(id)) continue;
      const std::vector<ValueId> inputs = graph_.node(id).inputs;
      for (size_t i = 0; i < inputs.size(); ++i) {
        if (ReadsInteger(id, i)) graph_.SetInput(id, i, integer_form_.at(inputs[i]));
      }
      if (IsLinear(graph_.node(id)) && !HasComputedOperand(graph_, graph_.node(id)))
        QuantizeWeights(id);
    }
    for (const auto& [id, reason] : plan_.reasons) SetFloatReason(graph_.attrs(id), reason);
    FillReport();
    EVOQ_TRY(graph_.Sort());
    graph_ = graph_.Compacted();
    EVOQ_TRY(InferTypes(graph_));
    EVOQ_TRY(graph_.Verify());
    return std::move(report_);
  }

 private:
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
    const auto& order = graph_.order();
    for (auto it = order.rbegin(); it != order.rend(); ++it) {
      const Node& node = graph_.node(*it);
      if (!plan_.integer.count(*it)) continue;
      for (ValueId y : node.outputs) {
        const bool wanted =
            !IsLinear(node) || HasIntegerReader(y) ||
            (node.op == "Conv" && options_.target && options_.target->quantize_results);
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
    ValueSets groups(graph_.value_count());  // of values that share their parameters
    for (NodeId id : plan_.integer) {
      const Node& node = graph_.node(id);
      if (!MovesOnly(node)) continue;
      const ValueId first = node.outputs[0];
      for (size_t i : RealInputs(graph_, node)) groups.Join(node.inputs[i], first);
      for (ValueId y : node.outputs) {
        if (y.valid()) groups.Join(y, first);
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
    for (ValueId v : quantized_) {
      const int group = groups.Find(v);
      const QuantParams params =
          ActivationParams(ranges.at(group), options_.activation,
                           options_.symmetric_activations || balanced.count(group));
      types_[v] = TensorType(options_.activation, graph_.value(v).type.shape, params);
    }
    return {};
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
      } else {
        Dequantize(v);
      }
      real_name_[integer_form_[v]] = value.name;
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

  void QuantizeWeights(NodeId id) {
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
    const Tensor q = QuantizeWeight(
        weight, axis, per_channel ? std::span<const float>(least) : std::span(&largest, 1));
    Tensor bias = b.valid() ? graph_.value(b).constant : Tensor();
    const std::string name = b.valid() ? graph_.value(b).name : node.name + ".bias";
    CorrectBias(node, weight, q, bias);
    const bool float_bias = options_.target && options_.target->symmetric;
    if (bias.defined() && float_bias) graph_.SetInput(id, 2, graph_.AddConstant(name, bias));
    if (bias.defined() && !float_bias)
      graph_.SetInput(
          id, 2, graph_.AddConstant(name + ".int32", QuantizeBias(bias, scale_x, *q.type().quant)));
    graph_.SetInput(id, 1, SharedConstant(w, q));
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
    report_.nodes.Add(Precision::kInt8, static_cast<int>(plan_.integer.size()));
    report_.nodes.Add(Precision::kFloat32, static_cast<int>(plan_.reasons.size()));
    for (const auto& [id, reason] : plan_.reasons)
      report_.float_reasons[graph_.node(id).name] = reason;
    if (plan_.integer.empty())
      report_.warnings.push_back("no node became integer arithmetic: the model is unchanged");
  }

  Graph& graph_;
  Ranges ranges_;            // a copy: equalizing changes channels
  QuantizeOptions options_;  // a copy: the target may ask for other activations
  QuantPlan plan_;
  std::set<ValueId> quantized_;                           // values that have an integer form
  std::map<ValueId, TensorType> types_;                   // of those forms
  std::map<ValueId, ValueId> integer_form_;               // the value itself, or its quantized copy
  std::map<ValueId, std::vector<ValueId>> weight_forms_;  // of a weight, by its float32 constant
  std::map<ValueId, std::string> real_name_;  // of an integer form: the name in the ranges
  QuantizeReport report_;
};

}  // namespace

Result<QuantizeReport> QuantizeStatic(Graph& graph, const Ranges& ranges,
                                      const QuantizeOptions& options) {
  return StaticQuantizer(graph, ranges, options).Run();
}

}  // namespace evoq
