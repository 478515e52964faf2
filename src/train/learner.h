// A plan with its memory: computes the gradients of a batch and changes the parameters.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/aligned.h"
#include "train/loss.h"
#include "train/optimizer.h"
#include "train/parameter_form.h"
#include "train/plan.h"
#include "train/ranks.h"

namespace evoq {

// What a batch was.
struct BatchResult {
  double loss = 0;      // the mean over its samples
  int64_t correct = 0;  // rows of scores whose label has the largest one; none of real targets
  double norm = 0;      // of the gradient, over all parameters
};

struct BatchSettings {
  const LossDef* loss = nullptr;
  float smoothing = 0;
  // Distillation (train/distill.h): scores [batch, rows, classes], nullptr without it.
  const float* teacher = nullptr;
  float temperature = 1, teacher_share = 0;
  // Of TrainingPlanOptions::features, each [batch, ...]: what they learn to be, and how much the
  // mean of their distances counts beside the loss.
  std::span<const float* const> features = {};
  float feature_weight = 0;
};

// What changes the parameters after a batch: of `update`, the fields from `rate` on.
struct UpdateSettings {
  const OptimizerDef* optimizer = nullptr;
  OptimizerStep update = {};
  double clip_norm = 0;  // the gradient is made this long where it is longer; 0: never
  double ema = 0;        // what the average keeps of itself (Learner::Average); 0: there is none
};

// What a learner works with besides; each must outlive it.
struct LearnerParts {
  const Ranks* ranks = nullptr;      // processes that train together; null: one
  ParameterForm* rounder = nullptr;  // forward and backward read what it makes of the parameters
};

// One caller at a time. Results are the same bits for any number of threads.
class Learner {
 public:
  // Parameters and averages begin as the graph's constants. `shards` >= 1. With ranks each
  // process computes its shards of the batch, as many as there are processes at least, and all have
  // what all computed. Errors: kInternal where the graph is not the plan's; those of the rounder.
  static Result<std::unique_ptr<Learner>> Create(const Graph& graph, TrainingPlan plan,
                                                 int64_t shards, int threads, Isa isa,
                                                 const LearnerParts& parts = {});

  const TrainingPlan& plan() const { return plan_; }
  int64_t batch() const { return plan_.samples * all_shards_; }
  // Of parameters, what optimizers keep, and values and gradients of all shards that are computed
  // here.
  int64_t memory_bytes() const;
  ThreadPool& pool() { return pool_; }

  // Writes the batch's sample `sample` (from 0 on) to its place in each input, and what it is to
  // `targets`, one for each row of scores, whose labels are in [0, classes). Called on any thread,
  // for each sample once.
  using Fill = std::function<void(int64_t sample, std::span<float* const> inputs,
                                  std::span<SampleTarget> targets)>;
  // The gradient of the mean loss by every parameter.
  BatchResult Compute(const Fill& fill, const BatchSettings& settings);
  // The scores of a batch, [batch, rows, classes], without gradients. Of one process alone.
  std::vector<float> Scores(const Fill& fill);
  // Changes the parameters, and the moving averages, by the last batch.
  void Update(const UpdateSettings& settings, BatchResult& result);

  // Places as the plan's constants say.
  std::span<float> parameters() { return Floats(parameters_); }
  std::span<float> gradients() { return Floats(gradients_); }
  std::span<float> averages() { return Floats(averages_); }
  std::span<float> slot(int i) { return Floats(slots_[i]); }

  // Begins the exponential moving average of the parameters (Polyak and Juditsky, "Acceleration of
  // Stochastic Approximation by Averaging", 1992): after step t
  //   average <- k average + (1 - k) w,  k = min(ema, (1 + t) / (10 + t))
  // WriteTo then writes it in place of the parameters. Before the first step only.
  void Average();
  bool averages_parameters() const { return ema_.size() > 0; }
  std::span<float> ema() { return Floats(ema_); }

  // With a rounder: after parameters were changed, before the next batch. Errors: the rounder's.
  Status Round();

  // Begins to keep a number for each parameter, from 0 on, that the caller makes of its gradients;
  // checkpoints have it.
  void KeepObserved();
  bool keeps_observed() const { return observed_.size() > 0; }
  std::span<float> observed() { return Floats(observed_); }

  // The constants of `graph` become what was trained; `rounded`: what forward reads of it.
  Status WriteTo(Graph& graph, bool rounded = false);

 private:
  struct Shard {
    AlignedBuffer values, value_gradients, parameter_gradients, scratch;
    std::unique_ptr<Workspace> workspace;
    std::vector<GradientRun> runs;  // by step
    std::vector<std::vector<double>> forward_sums, backward_sums;
    std::vector<SampleTarget> targets;  // [samples, rows]
    double loss = 0;
    int64_t correct = 0;
  };
  enum class Action { kFill, kForwardSums, kForward, kLoss, kFeature, kBackwardSums, kBackward };
  struct Task {
    Action action;
    size_t step;  // of kFeature, its index
  };

  Learner(TrainingPlan plan, int64_t shards, int threads, Isa isa, const LearnerParts& parts);
  static std::span<float> Floats(AlignedBuffer& buffer) {
    return {reinterpret_cast<float*>(buffer.data()), buffer.size() / sizeof(float)};
  }
  float* Address(Shard& shard, const TrainingPlace& place);
  float* Gradient(Shard& shard, const TrainingPlace& place);
  void Connect(Shard& shard);
  void MakePhases();
  void ComputeAgain(size_t segment);
  void Join(const std::vector<Task>& phase);
  void Do(const Task& task, int64_t shard, const Fill& fill, const BatchSettings& settings);
  void FillShard(int64_t shard, const Fill& fill);
  void LossOf(int64_t shard, const BatchSettings& settings);
  void FeatureOf(size_t feature, int64_t shard, const BatchSettings& settings);
  void SumResults(BatchResult& result);
  double SumGradients();
  void SumPart(int64_t begin, int64_t end, float* sum);
  static void Follow(const UpdateSettings& settings, const OptimizerStep& step, float* average);

  TrainingPlan plan_;
  Isa isa_;
  ThreadPool pool_;
  const Ranks* ranks_;
  ParameterForm* rounder_;
  int64_t all_shards_;  // of the batch
  int64_t first_ = 0;   // of those that are computed here
  AlignedBuffer parameters_, gradients_, averages_, slots_[2], ema_, observed_;
  AlignedBuffer rounded_;  // parameters; empty without a rounder
  std::vector<Shard> shards_;
  std::vector<std::vector<Task>> phases_;                              // shards meet between them
  std::vector<std::vector<double>> forward_totals_, backward_totals_;  // by step
};

}  // namespace evoq
