#include "train/quantized.h"

#include <algorithm>
#include <cmath>

#include "passes/qdq_bias.h"
#include "quant/params.h"
#include "quant/plan.h"
#include "reference/reference.h"
#include "train/simulate.h"
#include "train/simulation.h"

namespace evoq {
namespace {

const Reason kNotSimulated{"excluded", "training does not simulate its integer arithmetic"};

// A channel that was pruned has next to no weights, and so a scale next to 0, beside which its bias
// would not fit int32. More steps than these become so many, which leaves room to train; what the
// weights lose is below 2^-17 of the bias.
constexpr double kMostSteps = 1 << 28, kThenSteps = 1 << 26;

Status CheckReal(const Graph& graph) {
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (node.domain.empty() && node.op == "BatchNormalization")
      return Unsupported(
          "{} ({}) folds into no convolution: training with integers takes its statistics as they "
          "are",
          node.name, node.op);
    for (ValueId out : node.outputs) {
      if (out.valid() && graph.value(out).type.quantized())
        return Unsupported("{} ({}) computes integers already, expected a float32 model", node.name,
                           node.op);
    }
  }
  return {};
}

bool IsWeight(const Graph& graph, ValueId constant) {
  return std::ranges::any_of(graph.value(constant).users, [&](NodeId user) {
    const Node& node = graph.node(user);
    return IsLinear(node) && node.input(1) == constant;
  });
}

}  // namespace

Result<std::unique_ptr<QuantizedModel>> QuantizedModel::Create(Graph graph, Ranges ranges,
                                                               QuantizeOptions options,
                                                               std::vector<LayerBits> bits) {
  EVOQ_TRY(CheckReal(graph));
  // Those change the weights that training goes on with.
  options.equalize = options.correct_bias = false;
  std::unique_ptr<QuantizedModel> model(
      new QuantizedModel(std::move(graph), std::move(ranges), std::move(options), std::move(bits)));
  EVOQ_TRY(SplitForStatic(model->graph_, model->ranges_, model->options_));
  for (NodeId id : model->graph_.order()) {
    const Node& node = model->graph_.node(id);
    if (!IsSimulated(model->graph_, node)) model->options_.keep.emplace(node.name, kNotSimulated);
  }
  EVOQ_TRY(model->ChooseScales());
  EVOQ_TRY(model->Quantize(model->graph_, model->given_));
  return model;
}

Status QuantizedModel::ChooseScales() {
  Graph chosen = graph_;
  EVOQ_ASSIGN(report_, QuantizeStatic(chosen, ranges_, options_));
  if (report_.nodes[Precision::kInt8] == 0) {
    const auto why = report_.float_reasons.begin();
    return Unsupported("nothing becomes integer arithmetic{}",
                       why == report_.float_reasons.end()
                           ? std::string()
                           : fmt::format(": {}: {}", why->first, why->second.sentence));
  }
  for (const auto& [name, type] : report_.used) {
    const ValueId id = graph_.FindValue(name);
    if (!id.valid() || (graph_.value(id).is_constant() && !IsWeight(graph_, id))) continue;
    given_[name] = {.dtype = type.dtype, .params = *type.quant, .everywhere = false};
    if (const auto few = report_.activation_bits.find(name); few != report_.activation_bits.end()) {
      given_[name].bits = few->second;
      given_[name].held = true;
    }
  }
  for (NodeId id : graph_.order()) {
    const Node& node = graph_.node(id);
    const int bits = IsLinear(node) ? BitsOf(bits_, node.name) : 8;
    const auto weight = given_.find(IsLinear(node) ? graph_.value(node.inputs[1]).name : "");
    if (bits == 8 || weight == given_.end()) continue;
    const Tensor q = QuantizeWeightToBits(graph_.value(node.inputs[1]).constant,
                                          weight->second.params.axis, bits);
    weight->second.dtype = q.dtype();
    weight->second.binary = bits == 1;
    weight->second.params = *q.type().quant;
  }
  FitBiases();
  return {};
}

void QuantizedModel::FitBiases() {
  for (NodeId id : graph_.order()) {
    const Node& node = graph_.node(id);
    if (!IsLinear(node)) continue;
    const Tensor* bias = graph_.ConstantInput(node, 2);
    const auto x = given_.find(graph_.value(node.input(0)).name),
               w = given_.find(graph_.value(node.input(1)).name);
    if (bias == nullptr || bias->dtype() != DType::kFloat32 || x == given_.end() ||
        w == given_.end())
      continue;
    const double finer = DTypeBits(w->second.dtype) < 8 ? kMostFinerFactor : 1;
    std::vector<float>& scales = w->second.params.scales;
    for (int64_t c = 0; c < bias->elements(); ++c) {
      float& scale = scales[w->second.params.per_tensor() ? 0 : static_cast<size_t>(c)];
      const double size = std::abs(static_cast<double>(bias->data<float>()[c])) * finer /
                          x->second.params.scales[0];
      if (size > kMostSteps * scale) scale = ShortScale(size / kThenSteps);
    }
  }
}

Result<Graph> QuantizedModel::Quantize(const Graph& graph, const GivenTypes& given) const {
  QuantizeOptions options = options_;
  options.given = given;
  Graph integers = graph;
  EVOQ_ASSIGN(const QuantizeReport report, QuantizeStatic(integers, ranges_, options));
  for (const auto& [name, reason] : report.float_reasons) {
    if (report_.float_reasons.count(name) == 0)
      return Fail(ErrorCode::kConditionFailed, "{} computes with integers no more: {}", name,
                  reason.sentence);
  }
  MarkWeightBits(integers, bits_);
  return integers;
}

Result<TrainingPlan> QuantizedModel::Plan(const TrainingPlanOptions& options) {
  TrainingPlanOptions used = options;
  if (const int64_t fixed = FixedBatch(graph_); fixed > 0) used.samples = fixed;
  EVOQ_ASSIGN(const Graph integers, Quantize(graph_, given_));
  EVOQ_ASSIGN(const Graph shard, ShardOf(integers, used.samples, used.length));
  EVOQ_ASSIGN(Simulation simulation, Simulate(shard, graph_, given_));
  simulation_ = std::move(simulation.graph);
  steps_ = std::move(simulation.steps);
  for (const std::string& name : used.features) {
    const ValueId value = integers.FindValue(name);
    const auto step = steps_.find(name);
    if (value.valid() && integers.value(value).type.quantized() && step != steps_.end())
      used.feature_steps[name] = step->second;
  }
  return PlanShard(simulation_, used);
}

void QuantizedModel::Absorb() {
  for (int i = 0; i < simulation_.value_count(); ++i) {
    const Value& value = simulation_.value(ValueId{i});
    const ValueId own = graph_.FindValue(value.name);
    if (!value.is_constant() || !own.valid() || !graph_.value(own).is_constant()) continue;
    if (graph_.value(own).type == value.type) graph_.SetConstant(own, value.constant);
  }
  for (const auto& [name, step] : steps_) {
    const auto entry = given_.find(name);
    if (entry == given_.end()) continue;
    const Tensor& logs = simulation_.value(simulation_.FindValue(step)).constant;
    for (size_t i = 0; i < entry->second.params.scales.size(); ++i)
      entry->second.params.scales[i] = StepOf(logs.values<float>()[i]);
  }
  FitBiases();
}

}  // namespace evoq
