#include "train/learn_rounding.h"

#include <algorithm>
#include <random>

#include "base/rows.h"
#include "quant/soft_rounding.h"
#include "train/learner.h"

namespace evoq {
namespace {

constexpr SoftSchedule kSchedule{.steps = 400};
// Ten times a layer's: the error of a block sinks farther while its numbers are soft.
constexpr double kPenalty = 10 * kSoftPenalty;
constexpr int64_t kBatch = 16;                      // samples, at most
constexpr int64_t kMostBytes = int64_t{512} << 20;  // of values and gradients of a batch

// Between their numbers: parameters are those of SoftNumber.
class SoftWeights : public ParameterForm {
 public:
  explicit SoftWeights(const std::vector<SoftWeight>& weights) : weights_(weights) {}

  Status Choose(const TrainingPlan& plan) override {
    for (const TrainedConstant& parameter : plan.parameters) {
      const auto found = std::ranges::find(weights_, parameter.name, &SoftWeight::name);
      if (found != weights_.end()) chosen_.push_back({&*found, parameter.offset});
    }
    if (chosen_.empty()) return Unsupported("no gradient reaches its weights");
    return {};
  }

  Status Round(ThreadPool& pool, std::span<const float> from, std::span<float> to) const override {
    std::ranges::copy(from, to.begin());
    Each(pool, [&](const SoftWeight& weight, int64_t i, int64_t at) {
      const auto h = static_cast<float>(SoftNumber(from[at]).h());
      to[at] = weight.low[i] + h * (weight.high[i] - weight.low[i]);
    });
    return {};
  }

  // Number i of a weight, which is number `at` of the parameters.
  template <typename Use>
  void Each(ThreadPool& pool, const Use& use) const {
    for (const Chosen& chosen : chosen_) {
      pool.ParallelFor(static_cast<int64_t>(chosen.weight->low.size()), 4096,
                       [&](int64_t begin, int64_t end) {
                         for (int64_t i = begin; i < end; ++i)
                           use(*chosen.weight, i, chosen.offset + i);
                       });
    }
  }

  // Of the weights in their order. One that no gradient reaches stays as it begins.
  std::vector<std::vector<bool>> Higher(std::span<const float> parameters) const {
    std::vector<std::vector<bool>> all;
    for (const SoftWeight& weight : weights_) {
      const auto chosen = std::ranges::find(chosen_, &weight, &Chosen::weight);
      std::vector<bool>& higher = all.emplace_back();
      for (size_t i = 0; i < weight.low.size(); ++i)
        higher.push_back(
            chosen == chosen_.end()
                ? weight.start[i] >= 0.5f
                : SoftNumber(parameters[chosen->offset + static_cast<int64_t>(i)]).h() >= 0.5);
    }
    return all;
  }

 private:
  struct Chosen {
    const SoftWeight* weight;
    int64_t offset;
  };
  const std::vector<SoftWeight>& weights_;
  std::vector<Chosen> chosen_;
};

// The distance of features alone counts.
constexpr LossDef kNoLoss = {
    .name = "",
    .doc = "",
    .last = "",
    .real = false,
    .sample = [](std::span<const float> scores, const SampleTarget&, float,
                 float* gradient) -> double {
      std::fill_n(gradient, scores.size(), 0.0f);
      return 0;
    },
};

class RoundingLearner {
 public:
  RoundingLearner(const BlockRounding& block) : block_(block), soft_(block.weights) {}

  Result<std::vector<std::vector<bool>>> Run() {
    EVOQ_TRY(Start());
    for (int step = 0; step < kSchedule.steps; ++step) {
      BatchResult result = Compute();
      const double beta = kSchedule.Beta(step);
      ChangeGradients(kSchedule.penalizes(step) ? beta : 0);
      learner_->Update({.optimizer = adam_,
                        .update = {.rate = static_cast<float>(kSoftRate),
                                   .momentum = 0.9f,
                                   .beta2 = 0.999f,
                                   .epsilon = 1e-8f,
                                   .decay = 0,
                                   .step = step + 1}},
                       result);
      EVOQ_TRY(learner_->Round());
    }
    return soft_.Higher(learner_->parameters());
  }

 private:
  Status Start() {
    TrainingPlanOptions options{.samples = 1, .last = ""};
    options.features = {block_.graph.value(block_.graph.outputs()[0]).name};
    for (const SoftWeight& weight : block_.weights) {
      options.only.push_back(weight.name);
      numbers_ += static_cast<double>(weight.low.size());
    }
    EVOQ_ASSIGN(TrainingPlan plan, PlanShard(block_.graph, options));
    const int64_t bytes = 4 * (plan.value_floats + plan.gradient_floats + plan.parameter_floats);
    const auto samples = static_cast<int64_t>(block_.inputs.size());
    const int64_t shards = std::clamp<int64_t>(kMostBytes / bytes, 1, std::min(kBatch, samples));
    EVOQ_ASSIGN(const Isa isa, SelectIsa());
    EVOQ_ASSIGN(learner_, Learner::Create(block_.graph, std::move(plan), shards, block_.threads,
                                          isa, {.rounder = &soft_}));
    const std::span<float> parameters = learner_->parameters();
    soft_.Each(learner_->pool(), [&](const SoftWeight& weight, int64_t i, int64_t at) {
      parameters[at] = static_cast<float>(SoftNumber::Start(weight.start[i]));
    });
    adam_ = FindRow(AllOptimizers(), "adam");
    for (size_t i = 0; i < block_.inputs.size(); ++i) order_.push_back(i);
    next_ = order_.size();
    return learner_->Round();
  }

  // The next sample of an order that is shuffled anew whenever it ends.
  size_t Next() {
    if (next_ == order_.size()) {
      for (size_t i = order_.size(); i > 1; --i) std::swap(order_[i - 1], order_[random_() % i]);
      next_ = 0;
    }
    return order_[next_++];
  }

  BatchResult Compute() {
    std::vector<size_t> batch;
    for (int64_t i = 0; i < learner_->batch(); ++i) batch.push_back(Next());
    targets_.clear();
    for (const size_t s : batch) {
      const auto target = block_.targets[s].values<float>();
      targets_.insert(targets_.end(), target.begin(), target.end());
    }
    const float* const features[] = {targets_.data()};
    const Learner::Fill fill = [&](int64_t sample, std::span<float* const> inputs,
                                   std::span<SampleTarget>) {
      const std::vector<Tensor>& from = block_.inputs[batch[static_cast<size_t>(sample)]];
      for (size_t i = 0; i < inputs.size(); ++i) CopyAsFloats(from[i], inputs[i]);
    };
    return learner_->Compute(fill, {.loss = &kNoLoss, .features = features, .feature_weight = 1});
  }

  static void CopyAsFloats(const Tensor& from, float* to) {
    const auto copy = [&](auto values) {
      std::ranges::transform(values, to, [](auto v) { return static_cast<float>(v); });
    };
    if (from.dtype() == DType::kFloat32) copy(from.values<float>());
    if (from.dtype() == DType::kInt64) copy(from.values<int64_t>());
    if (from.dtype() == DType::kInt32) copy(from.values<int32_t>());
  }

  // From gradients by the weights to those by what is learned, in units in which the error of a
  // number is 1 on average.
  void ChangeGradients(double beta) {
    const double unit = numbers_ / block_.error_before;
    const std::span<float> gradients = learner_->gradients();
    const std::span<const float> parameters = learner_->parameters();
    soft_.Each(learner_->pool(), [&](const SoftWeight& weight, int64_t i, int64_t at) {
      const SoftNumber soft(parameters[at]);
      double gradient = unit * (weight.high[i] - weight.low[i]) * gradients[at];
      if (beta > 0) gradient += kPenalty * soft.PenaltySlope(beta);
      gradients[at] = static_cast<float>(gradient * soft.slope());
    });
  }

  const BlockRounding& block_;
  SoftWeights soft_;
  double numbers_ = 0;  // of all weights
  std::unique_ptr<Learner> learner_;
  const OptimizerDef* adam_ = nullptr;
  std::mt19937 random_{1};
  std::vector<size_t> order_;
  size_t next_ = 0;
  std::vector<float> targets_;  // of a batch
};

}  // namespace

Result<std::vector<std::vector<bool>>> LearnRounding(const BlockRounding& block) {
  return RoundingLearner(block).Run();
}

}  // namespace evoq
