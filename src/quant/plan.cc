#include "quant/plan.h"

#include <algorithm>
#include <optional>

#include "graph/float_reason.h"
#include "quant/given.h"
#include "quant/integer_kernels.h"
#include "quant/logarithm.h"
#include "quant/recurrent_weights.h"
#include "quant/unfuse.h"

namespace evoq {
namespace {

// Longest sums that int32 holds for certain, beside a bias of 2^30: 255 * 127 * k < 2^30.
constexpr int64_t kMaxDepth = 33000;

constexpr char kFloatInputs[] = "float-inputs";

bool IsRealType(const TensorType& type) { return type.dtype == DType::kFloat32; }

bool TakesConstants(const Node& node) {
  const OpDef* op = FindOp(node);
  return op != nullptr && (op->quant == QuantTrait::kMove || op->quantizes_constants);
}

class Planner {
 public:
  Planner(const Graph& graph, const Ranges& ranges, const QuantizeOptions& options)
      : graph_(graph), ranges_(ranges), options_(options) {
    if (options.target == nullptr && options.given.empty())
      kernels_.emplace(graph, options.per_channel);
  }

  QuantPlan Run() {
    PlanLinear();
    for (NodeId id : graph_.order()) {
      if (!IsLinear(graph_.node(id))) Follow(id);
    }
    const auto& order = graph_.order();
    for (auto it = order.rbegin(); it != order.rend(); ++it) {
      if (plan_.integer.count(*it)) Retreat(*it);
    }
    std::erase_if(plan_.reasons, [&](const auto& kept) {
      return kept.second.code == kFloatInputs && MovesIntegers(kept.first);
    });
    return std::move(plan_);
  }

 private:
  void Keep(NodeId id, Reason reason) { plan_.reasons[id] = std::move(reason); }

  void PlanLinear() {
    std::vector<NodeId> linear;
    for (NodeId id : graph_.order()) {
      if (IsLinear(graph_.node(id))) linear.push_back(id);
    }
    for (NodeId id : linear) {
      if (TypeOf(graph_.node(id).input(0)).quantized()) {
        ++plan_.already;
        continue;
      }
      auto reason = LinearReason(graph_.node(id));
      if (!reason && options_.skip_first_last && (id == linear.front() || id == linear.back())) {
        reason = {"first-or-last",
                  "the first and the last linear operator were asked to stay float"};
      }
      if (reason) {
        Keep(id, *reason);
      } else {
        plan_.integer.insert(id);
      }
    }
  }

  // Why a linear operator cannot become integer arithmetic, or nothing.
  std::optional<Reason> LinearReason(const Node& node) const {
    if (auto kept = KeptByOptions(node, options_)) return kept;
    if (!IsRealType(TypeOf(node.input(0)))) return Reason{"types", "the input is not float32"};
    if (HasComputedOperand(graph_, node)) return PairReason(node);
    if (options_.given.empty()) {
      if (auto logarithm = LogarithmReason(graph_, node)) return logarithm;
    }
    const Tensor* w = graph_.ConstantInput(node, 1);
    if (w == nullptr) return Reason{"weights-not-constant", "the weight is computed"};
    if (!IsRealType(w->type()) || !w->layout().empty()) {
      // Of weights that came in as integers import knows more.
      const Reason noted = FloatReasonOf(node.attrs);
      return noted.empty() ? Reason{"types", "the weight is not plain float32"} : noted;
    }
    if (w->elements() == 0) return Reason{"shape", "the weight is empty"};
    if (LinearFormOf(node)->two_operands && w->shape().rank() != 2) {
      return Reason{"shape", fmt::format("the weight has rank {}, integer {} takes 2",
                                         w->shape().rank(), node.op)};
    }
    const int64_t channels = w->sizes()[WeightAxis(node, w->shape().rank())];
    if (!LinearFormOf(node)->outputs_by_group && w->elements() / channels > kMaxDepth) {
      return Reason{"depth", fmt::format("sums of {} products may overflow int32, at most {}",
                                         w->elements() / channels, kMaxDepth)};
    }
    if (node.input(2).valid()) {
      const Tensor* bias = graph_.ConstantInput(node, 2);
      if (bias == nullptr || !IsRealType(bias->type()))
        return Reason{"bias-not-constant", "the bias is computed or not float32"};
    }
    if (graph_.value(node.input(0)).is_constant())
      return Reason{"constant-input", "the input is a constant"};
    if (!ranges_.count(NameOf(node.input(0)))) return NoRange(node.input(0));
    if (auto given = GivenWeightReason(graph_, node, ranges_, options_)) return given;
    if (node.input(3).valid() && !ranges_.count(NameOf(node.input(3))))
      return NoRange(node.input(3));
    if (auto refusal = kernels_ ? kernels_->Refusal(node) : std::nullopt) return refusal;
    return NeedsOutputRange(node);
  }

  // The product of two computed operands.
  std::optional<Reason> PairReason(const Node& node) const {
    const TensorType b = TypeOf(node.input(1));
    if (!IsRealType(b) || node.input(2).valid() || !b.shape.ranked() || b.shape.rank() < 2 ||
        TypeOf(node.input(0)).shape.rank() < 2)
      return Reason{"weights-not-constant",
                    "the weight is computed, but not as a matrix of float32"};
    const Dim& depth = b.shape[b.shape.rank() - 2];
    if (depth.known() && depth.value > kMaxDepth)
      return Reason{"depth", fmt::format("sums of {} products may overflow int32, at most {}",
                                         depth.value, kMaxDepth)};
    for (size_t i : {0, 1, 3}) {
      if (!node.input(i).valid()) continue;
      if (graph_.value(node.input(i)).is_constant())
        return Reason{"constant-input",
                      i == 0 ? "the first operand is a constant: integer kernels take weights as "
                               "the second one"
                             : "an operand is a constant"};
      if (!ranges_.count(NameOf(node.input(i)))) return NoRange(node.input(i));
    }
    return NeedsOutputRange(node);
  }

  std::optional<Reason> NeedsOutputRange(const Node& node) const {
    for (ValueId v : node.outputs) {
      if (!v.valid() || !IsRealType(TypeOf(v))) continue;
      if (IsLinear(node) && MayWriteFloat(v)) continue;
      if (!ranges_.count(NameOf(v))) return NoRange(v);
      const std::string linear = NameOf(v) + ".linear";
      if (HasTableActivation(node) && !ranges_.count(linear))
        return Reason{"no-range", fmt::format("{} was not calibrated", linear)};
    }
    return std::nullopt;
  }

  // A linear operator writes float32 what was given as another type than integer kernels take, and
  // what has no parameters where others were given some.
  bool MayWriteFloat(ValueId v) const {
    return GivenAsOther(NameOf(v), options_) ||
           (!options_.given.empty() && !ranges_.count(NameOf(v)));
  }

  // Shape arithmetic and the like have nothing to quantize and need no reason.
  bool HasRealValues(const Node& node) const {
    const auto real = [&](ValueId v) { return v.valid() && IsFloat(TypeOf(v).dtype); };
    return std::any_of(node.inputs.begin(), node.inputs.end(), real) ||
           std::any_of(node.outputs.begin(), node.outputs.end(), real);
  }

  // One of the two nodes that round a given value (PlaceGiven).
  bool RoundsGiven(const Node& node) const {
    return IsConversion(node) && (GivenAsOther(NameOf(node.inputs[0]), options_) ||
                                  GivenAsOther(NameOf(node.outputs[0]), options_));
  }

  void Follow(NodeId id) {
    const Node& node = graph_.node(id);
    if (!HasRealValues(node) || RoundsGiven(node) || IsConversion(node)) return;
    if (ComputesRounded(graph_, node)) {
      ++plan_.already;
      return;
    }
    const OpDef* op = FindOp(node);
    if (op == nullptr || op->quant == QuantTrait::kFloat || op->prefers_float) {
      return Keep(id, {kNoInt8Kernel, fmt::format("{} is computed in float32", node.op)});
    }
    if (auto kept = KeptByOptions(node, options_)) return Keep(id, *kept);
    int integer = 0, real = 0;
    for (size_t i : RealInputs(graph_, node)) {
      const Value& value = graph_.value(node.inputs[i]);
      if (!value.is_constant() && !ranges_.count(value.name))
        return Keep(id, *NoRange(node.inputs[i]));
      if (!value.is_constant()) ++real;
      integer += plan_.integer.count(value.producer);
    }
    if (real == 0) return Keep(id, {"types", "no input is a float32 activation"});
    if (node.outputs.size() > 1 && node.op != "Split")
      return Keep(id, {"outputs", fmt::format("{} with {} outputs", node.op, node.outputs.size())});
    if (auto missing = NeedsOutputRange(node)) return Keep(id, *missing);
    if (integer == 0) return Keep(id, {kFloatInputs, "no integer operator computes its input"});
    if (op->quant != QuantTrait::kMove && integer < real)
      return Keep(id, {kFloatInputs, "an input is computed in float32"});
    if (auto refusal = kernels_ ? kernels_->Refusal(node) : std::nullopt) return Keep(id, *refusal);
    plan_.integer.insert(id);
  }

  // Whether an integer node reads `v` as integers: a linear one that writes float32 adds a float32
  // residual. `user` comes later in the order, so that its own readers are known.
  bool ReadsIntegers(NodeId user, ValueId v) const {
    if (!plan_.integer.count(user)) return false;
    if (!writes_float_.count(user)) return true;
    const std::vector<ValueId>& inputs = graph_.node(user).inputs;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i] == v && i != 3) return true;
    }
    return false;
  }

  // A linear operator whose result no integer operator reads writes it as float32; another operator
  // has nothing to do among integers then. What was given parameters, and what another tool's form
  // asks for, stays as it was asked for.
  void Retreat(NodeId id) {
    for (ValueId v : graph_.node(id).outputs) {
      if (!v.valid()) continue;
      for (NodeId user : graph_.value(v).users) {
        if (ReadsIntegers(user, v)) return;
      }
    }
    if (IsLinear(graph_.node(id))) {
      if (!options_.target && options_.given.empty()) writes_float_.insert(id);
      return;
    }
    plan_.integer.erase(id);
    Keep(id, {"float-readers", "only the model's outputs and float operators read its result"});
  }

  // A Transpose of floats that only integer operators read will change places with their
  // QuantizeLinear (the pass narrow-transpose): no step in float32.
  bool MovesIntegers(NodeId id) const {
    const Node& node = graph_.node(id);
    if (node.op != "Transpose" || graph_.IsOutput(node.outputs[0])) return false;
    const auto& users = graph_.value(node.outputs[0]).users;
    return !users.empty() && std::ranges::all_of(users, [&](NodeId user) {
      return ReadsIntegers(user, node.outputs[0]);
    });
  }

  std::optional<Reason> NoRange(ValueId v) const {
    if (auto given = GivenAsOther(NameOf(v), options_)) return given;
    return Reason{"no-range", fmt::format("{} was not calibrated", NameOf(v))};
  }
  const std::string& NameOf(ValueId v) const { return graph_.value(v).name; }
  TensorType TypeOf(ValueId v) const { return v.valid() ? graph_.value(v).type : TensorType(); }

  const Graph& graph_;
  const Ranges& ranges_;
  const QuantizeOptions& options_;
  // Evoq's own; what another runtime computes, and what was given parameters, is not asked of them.
  std::optional<IntegerKernels> kernels_;
  QuantPlan plan_;
  std::set<NodeId> writes_float_;  // linear ones of plan_.integer
};

}  // namespace

bool MovesOnly(const Node& node) {
  const OpDef* op = FindOp(node);
  return op != nullptr && op->quant == QuantTrait::kMove;
}

std::vector<size_t> RealInputs(const Graph& graph, const Node& node) {
  std::vector<size_t> real;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (!node.inputs[i].valid() ||
        (IsLinear(node) && (i == 2 || (i == 1 && !HasComputedOperand(graph, node)))))
      continue;
    const Value& value = graph.value(node.inputs[i]);
    if (!IsRealType(value.type) || (value.is_constant() && !TakesConstants(node))) continue;
    real.push_back(i);
  }
  return real;
}

bool IsConstantTable(const Graph& graph, const Node& node) {
  return Gathers(node) && graph.ConstantInput(node, 0) != nullptr;
}

std::optional<WeightPlace> WeightPlaceOf(const Graph& graph, const Node& node) {
  if (IsLinear(node)) {
    const Tensor* w = graph.ConstantInput(node, 1);
    if (w != nullptr) return WeightPlace{1, WeightAxis(node, w->shape().rank())};
  } else if (IsConstantTable(graph, node) && node.attrs.Int("axis", 0) == 0) {
    return WeightPlace{0, 0};
  }
  return std::nullopt;
}

QuantPlan MakePlan(const Graph& graph, const Ranges& ranges, const QuantizeOptions& options) {
  return Planner(graph, ranges, options).Run();
}

}  // namespace evoq
