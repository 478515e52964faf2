#include "train/plan.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/math.h"
#include "base/nearest.h"
#include "base/text.h"
#include "reference/reference.h"
#include "train/plan_memory.h"

namespace evoq {
namespace {

int64_t Take(int64_t& used, int64_t floats) {
  const int64_t offset = used;
  used += AlignedFloats(floats);
  return offset;
}

// A causal mask and the like: what is added to scores that nobody is to look at, and 0 elsewhere.
bool IsMask(const Tensor& constant) {
  constexpr float kNever = -1e4f;
  bool any = false;
  for (const float v : constant.values<float>()) {
    if (v != 0 && !(v <= kNever)) return false;
    any |= v != 0;
  }
  return any;
}

bool IsNumber(DType dtype) { return dtype == DType::kInt64 || dtype == DType::kInt32; }

// What makes a plan: the graph of one shard, and what is known of its values.
class Planner {
 public:
  Planner(Graph graph, const TrainingPlanOptions& options)
      : graph_(std::move(graph)), options_(options), places_(graph_.value_count()) {}

  Result<TrainingPlan> Run() {
    EVOQ_TRY(ChooseOutput());
    EVOQ_TRY(FindSteps());
    EVOQ_TRY(CheckRows());
    EVOQ_TRY(FindParameters());
    EVOQ_TRY(Dequantize());
    EVOQ_TRY(PlaceInputs());
    for (NodeId id : steps_) EVOQ_TRY(AddStep(id));
    TrainingPlace& scores = places_[scores_.index];
    if (scores.gradient < 0)
      return InvalidInput("the output {} depends on no parameter that can be trained",
                          graph_.value(scores_).name);
    plan_.scores = scores;
    FindFeatures();
    ShareGradients(plan_);
    if (options_.recompute) ShareValues(plan_);
    return std::move(plan_);
  }

 private:
  const Value& value(ValueId id) const { return graph_.value(id); }

  // The scores are what the only output is, or what its last operator takes, where that is left to
  // the loss.
  Status ChooseOutput() {
    if (graph_.outputs().size() != 1)
      return InvalidInput("the model has {} outputs, expected one: what the loss is of",
                          graph_.outputs().size());
    scores_ = graph_.outputs()[0];
    const NodeId last = value(scores_).producer;
    if (last.valid() && graph_.node(last).op == options_.last) scores_ = graph_.node(last).input(0);
    const TensorType& type = value(scores_).type;
    if (type.dtype != DType::kFloat32 || !type.shape.is_static() || type.shape.rank() < 1)
      return InvalidInput(
          "output {} is {}, expected float32 numbers for each sample, [samples, ...]",
          value(scores_).name, type.ToString());
    plan_.samples = options_.samples;
    if (type.shape[0].value != plan_.samples)
      return InvalidInput("output {} is {} for {} samples, expected one row for each",
                          value(scores_).name, type.ToString(), plan_.samples);
    plan_.rows = options_.rows;
    const int64_t scores = *type.shape.elements() / plan_.samples;
    const bool each = type.shape.rank() == 3 && type.shape[1].value == plan_.rows;
    if (plan_.rows > 1 && !each)
      return InvalidInput("output {} is {}, expected scores for each of {} tokens",
                          value(scores_).name, type.ToString(), plan_.rows);
    plan_.classes = scores / plan_.rows;
    return {};
  }

  // Nodes that the scores depend on and that are not known before training.
  Status FindSteps() {
    std::vector<bool> wanted(graph_.value_count(), false);
    wanted[scores_.index] = true;
    std::vector<NodeId> order(graph_.order());
    std::vector<NodeId> backwards;
    for (auto it = order.rbegin(); it != order.rend(); ++it) {
      const Node& node = graph_.node(*it);
      const bool used = std::any_of(node.outputs.begin(), node.outputs.end(),
                                    [&](ValueId id) { return id.valid() && wanted[id.index]; });
      if (!used) continue;
      backwards.push_back(*it);
      for (ValueId id : node.inputs) {
        if (id.valid()) wanted[id.index] = true;
      }
    }
    for (auto it = backwards.rbegin(); it != backwards.rend(); ++it) {
      EVOQ_ASSIGN(const bool known, Evaluated(graph_.node(*it)));
      if (!known) steps_.push_back(*it);
    }
    return {};
  }

  // Whether the node's outputs are known and nobody trains them: they are computed then. Of sizes,
  // the input need not be known.
  Result<bool> Evaluated(const Node& node) {
    const bool sizes = GivesSizes(node) && value(node.inputs[0]).type.shape.is_static();
    std::vector<Tensor> inputs;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const Tensor* const known = KnownInput(node, i);
      if (node.inputs[i].valid() && known == nullptr && !sizes) return false;
      inputs.push_back(known != nullptr ? *known
                       : sizes          ? Tensor::Allocate(value(node.inputs[i]).type)
                                        : Tensor());
    }
    std::vector<TensorType> types;
    for (ValueId id : node.outputs) types.push_back(id.valid() ? value(id).type : TensorType());
    EVOQ_ASSIGN(std::vector<Tensor> outputs,
                WithContext(EvaluateAhead(kReference, node, inputs, types), NodeLabel(node)));
    for (size_t i = 0; i < node.outputs.size() && i < outputs.size(); ++i) {
      if (node.outputs[i].valid()) known_[node.outputs[i].index] = outputs[i];
    }
    return true;
  }

  // Whether a constant at this input would be trained.
  bool Candidate(const Node& node, size_t i) const {
    const Value& v = value(node.inputs[i]);
    const GradientDef* const row = FindGradient(node);
    if (!v.is_constant() || row == nullptr || !row->TrainsConstant(i)) return false;
    if (v.type.dtype != DType::kFloat32 || v.type.quantized() || !v.constant.layout().empty())
      return false;
    const bool fixed =
        node.domain.empty() && RoleOf(node, i) == Role::kData &&
        ((v.constant.elements() <= 1 && (row->single >> i & 1) == 0) || IsMask(v.constant));
    return v.constant.elements() > 0 && !fixed && frozen_.count(v.name) == 0;
  }

  Status CheckRows() {
    std::string missing;
    std::set<std::string> told;
    for (NodeId id : steps_) {
      const Node& node = graph_.node(id);
      if (FindGradient(node) != nullptr || !told.insert(node.domain + node.op).second) continue;
      missing += (missing.empty() ? "" : ", ") + NodeLabel(node);
    }
    if (missing.empty()) return {};
    return Unsupported("no gradient for {}; `evoq list gradients` names the operators that train",
                       missing);
  }

  Status FindParameters() {
    std::set<std::string> names;
    for (NodeId id : steps_) {
      const Node& node = graph_.node(id);
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        if (node.inputs[i].valid() && Candidate(node, i)) names.insert(value(node.inputs[i]).name);
      }
    }
    for (const std::string& name : names) {
      const auto matches = [&](const std::string& pattern) { return GlobMatch(pattern, name); };
      if (!options_.only.empty() && std::ranges::none_of(options_.only, matches))
        frozen_.insert(name);
    }
    for (const std::string& pattern : options_.freeze) {
      bool any = false;
      for (const std::string& name : names) {
        if (!GlobMatch(pattern, name)) continue;
        any = true;
        frozen_.insert(name);
      }
      if (!any)
        return Fail(
            ErrorCode::kUsage, "--freeze {}: no parameter of that name{}", pattern,
            NearestHint(pattern, std::vector<std::string_view>(names.begin(), names.end())));
    }
    return {};
  }

  // Quantized constants that their readers want as real numbers.
  Status Dequantize() {
    for (NodeId id : steps_) {
      const Node& node = graph_.node(id);
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        if (!node.inputs[i].valid() || known_.contains(node.inputs[i].index)) continue;
        const Value& v = value(node.inputs[i]);
        const bool taken = i < 32 && (FindGradient(node)->quantized >> i & 1) != 0;
        if (!v.is_constant() || !v.type.quantized() || taken) continue;
        EVOQ_ASSIGN(known_[node.inputs[i].index],
                    WithContext(ToFloat32(v.constant), NodeLabel(node)));
      }
    }
    return {};
  }

  Status PlaceInputs() {
    for (ValueId id : graph_.inputs()) {
      const Value& v = value(id);
      if ((v.type.dtype != DType::kFloat32 && !IsNumber(v.type.dtype)) || v.type.quantized())
        return Unsupported("input {} is {}, expected float32, int64 or int32", v.name,
                           v.type.ToString());
      TrainingPlace& place = places_[id.index];
      place = {TrainingPlace::Kind::kShard, Take(plan_.value_floats, *v.type.shape.elements()), -1};
      plan_.inputs.push_back(v.type);
      plan_.input_places.push_back(place);
    }
    return {};
  }

  // The place of a constant at input i; a parameter is placed when it is met first.
  TrainingPlace& PlaceConstant(const Node& node, size_t i, bool average) {
    const ValueId id = node.inputs[i];
    TrainingPlace& place = places_[id.index];
    if (place.kind != TrainingPlace::Kind::kNone) return place;
    const Value& v = value(id);
    TrainedConstant constant{v.name, v.type.shape, 0, v.constant.elements(),
                             v.type.shape.rank() >= 2};
    if (average) {
      constant.offset = Take(plan_.average_floats, constant.elements);
      plan_.averages.push_back(constant);
      place = {TrainingPlace::Kind::kAverage, constant.offset, -1};
    } else if (Candidate(node, i)) {
      constant.offset = Take(plan_.parameter_floats, constant.elements);
      plan_.parameters.push_back(constant);
      place = {TrainingPlace::Kind::kParameter, constant.offset, constant.offset};
    } else {
      place = {TrainingPlace::Kind::kConstant, static_cast<int64_t>(plan_.constants.size()), -1};
      plan_.constants.push_back(v.constant);
    }
    return place;
  }

  TrainingPlace PlaceInput(const TrainingStep& step, size_t i) {
    const ValueId id = step.node.inputs[i];
    if (!id.valid()) return {};
    if (const auto known = known_.find(id.index); known != known_.end()) {
      TrainingPlace& place = places_[id.index];
      if (place.kind == TrainingPlace::Kind::kNone) {
        place = {TrainingPlace::Kind::kConstant, static_cast<int64_t>(plan_.constants.size()), -1};
        plan_.constants.push_back(known->second);
      }
      return place;
    }
    if (!value(id).is_constant()) return places_[id.index];
    const auto& averages = step.bound.averages;
    return PlaceConstant(step.node, i,
                         std::find(averages.begin(), averages.end(), i) != averages.end());
  }

  const Tensor* KnownInput(const Node& node, size_t i) const {
    const ValueId id = node.inputs[i];
    if (!id.valid()) return nullptr;
    if (const auto known = known_.find(id.index); known != known_.end()) return &known->second;
    return value(id).is_constant() && !Candidate(node, i) ? &value(id).constant : nullptr;
  }

  // Tokens are rows of what they index.
  void BoundTokens(const Node& node, const std::vector<TensorType>& x) {
    const int index = IndexInput(node);
    if (index < 0 || !Gathers(node)) return;
    const std::vector<ValueId>& inputs = graph_.inputs();
    if (std::find(inputs.begin(), inputs.end(), node.inputs[index]) == inputs.end()) return;
    const auto axis = NormalizeAxis(node.attrs.Int("axis"), x[0].shape.rank());
    if (!axis) return;
    const int64_t size = x[0].shape[*axis].value;
    plan_.pieces = plan_.pieces == 0 ? size : std::min(plan_.pieces, size);
  }

  Status AddStep(NodeId id) {
    TrainingStep step;
    step.node = graph_.node(id);
    std::vector<TensorType> x, y;
    std::vector<const Tensor*> constants;
    for (size_t i = 0; i < step.node.inputs.size(); ++i) {
      const ValueId input = step.node.inputs[i];
      constants.push_back(KnownInput(step.node, i));
      x.push_back(input.valid() ? value(input).type : TensorType());
      if (x.back().quantized() && constants.back() != nullptr) x.back() = constants.back()->type();
    }
    for (ValueId output : step.node.outputs)
      y.push_back(output.valid() ? value(output).type : TensorType());
    for (const auto* types : {&x, &y}) {
      for (const TensorType& type : *types) {
        if (type.dtype != DType::kUndefined && !type.shape.is_static())
          return Unsupported("{}: a size that depends on data", NodeLabel(step.node));
      }
    }
    const GradientDef& row = *FindGradient(step.node);
    BoundTokens(step.node, x);
    for (size_t i = 0; i < x.size(); ++i) {
      const bool known = constants[i] != nullptr || x[i].dtype == DType::kUndefined;
      if (known || x[i].dtype == DType::kFloat32 || (IsNumber(x[i].dtype) && row.integers >> i & 1))
        continue;
      return Unsupported("{}: input {} is {}, expected float32", NodeLabel(step.node), i,
                         x[i].ToString());
    }
    EVOQ_ASSIGN(step.bound,
                WithContext(row.bind({step.node, x, y, constants}), NodeLabel(step.node)));
    if (step.bound.saved > 0) step.saved = Take(plan_.value_floats, step.bound.saved);
    for (size_t i = 0; i < step.node.inputs.size(); ++i) {
      step.x.push_back(PlaceInput(step, i));
      step.differentiated |= step.x.back().gradient >= 0;
      if (step.node.domain.empty() && step.x.back().gradient >= 0 &&
          (i > 31 || (row.differentiable >> i & 1) == 0))
        return Unsupported("{}: input {} depends on parameters{}", NodeLabel(step.node), i,
                           step.node.op == "BatchNormalization"
                               ? "; a network that was exported in training mode (training_mode=1) "
                                 "trains when it is exported in evaluation mode"
                               : "");
    }
    for (size_t i : step.bound.averages) {
      if (step.x[i].kind != TrainingPlace::Kind::kAverage)
        return Unsupported("{}: input {} is no constant of its own", NodeLabel(step.node), i);
      step.average.push_back(step.x[i].offset);
    }
    for (size_t i = 0; i < y.size(); ++i) {
      if (!step.node.outputs[i].valid()) {
        step.y.emplace_back();
        continue;
      }
      const int64_t floats = y[i].shape.elements().value_or(0);
      TrainingPlace& place = places_[step.node.outputs[i].index];
      place = {TrainingPlace::Kind::kShard, Take(plan_.value_floats, floats), -1};
      place.floats = floats;
      if (step.differentiated) place.gradient = Take(plan_.gradient_floats, floats);
      step.y.push_back(place);
    }
    plan_.steps.push_back(std::move(step));
    return {};
  }

  void FindFeatures() {
    for (size_t i = 0; i < options_.features.size(); ++i) {
      const std::string& name = options_.features[i];
      const ValueId id = graph_.FindValue(name);
      if (!id.valid() || places_[id.index].gradient < 0) continue;
      TrainingFeature feature{.index = i, .place = places_[id.index]};
      const auto own = std::ranges::find_if(plan_.steps, [&](const TrainingStep& step) {
        return std::ranges::find(step.node.outputs, id) != step.node.outputs.end();
      });
      if (own == plan_.steps.end()) continue;
      feature.step = static_cast<size_t>(own - plan_.steps.begin());
      feature.floats = feature.place.floats / plan_.samples;
      if (const auto step = options_.feature_steps.find(name);
          step != options_.feature_steps.end()) {
        feature.scale = places_[graph_.FindValue(step->second).index];
      }
      plan_.features.push_back(feature);
    }
  }

  const Graph graph_;
  const TrainingPlanOptions& options_;
  std::vector<TrainingPlace> places_;  // by ValueId::index
  std::map<int32_t, Tensor> known_;    // values that were computed
  std::set<std::string> frozen_;
  std::vector<NodeId> steps_;
  ValueId scores_;
  TrainingPlan plan_;
};

}  // namespace

int64_t FixedBatch(const Graph& graph) {
  for (ValueId id : graph.inputs()) {
    const Shape& shape = graph.value(id).type.shape;
    if (shape.ranked() && shape.rank() > 0 && shape[0].known()) return shape[0].value;
  }
  return 0;
}

Result<TrainingPlan> PlanShard(Graph shard, const TrainingPlanOptions& options) {
  return Planner(std::move(shard), options).Run();
}

Result<TrainingPlan> MakeTrainingPlan(const Graph& graph, const TrainingPlanOptions& options) {
  TrainingPlanOptions used = options;
  if (const int64_t fixed = FixedBatch(graph); fixed > 0) used.samples = fixed;
  EVOQ_ASSIGN(Graph shard, ShardOf(graph, used.samples, used.length));
  return PlanShard(std::move(shard), used);
}

Result<Graph> ShardOf(const Graph& graph, int64_t samples, int64_t length) {
  Graph shard = graph;
  std::map<std::string, std::vector<int64_t>> shapes;
  for (ValueId id : graph.inputs()) {
    const Value& input = graph.value(id);
    if (!input.type.shape.ranked() || input.type.shape.rank() == 0)
      return Unsupported("input {} is {}, expected samples along its first axis", input.name,
                         input.type.ToString());
    std::vector<int64_t> sizes = input.type.shape.sizes();
    sizes[0] = samples;
    for (int64_t& size : sizes) {
      if (size < 0 && length > 0) size = length;
      if (size < 0)
        return Unsupported("input {} is {}, expected sizes but for the batch", input.name,
                           input.type.ToString());
    }
    shapes[input.name] = std::move(sizes);
  }
  EVOQ_TRY(BindShapes(shard, shapes));
  return shard;
}

}  // namespace evoq
