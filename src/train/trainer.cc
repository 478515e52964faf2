#include "train/trainer.h"

#include <algorithm>
#include <cmath>

#include "base/nearest.h"
#include "base/rows.h"
#include "base/stopwatch.h"
#include "base/text.h"
#include "train/augmentation.h"
#include "train/checkpoint.h"
#include "train/feeder.h"
#include "train/learner.h"
#include "train/lora.h"
#include "train/pruner.h"
#include "train/schedule.h"

namespace evoq {
namespace {

constexpr int64_t kToldEvery = 8;  // steps

// What indexes a table of the model.
Status CheckTokens(const TrainingPlan& plan, const LabelledSamples& samples) {
  for (size_t k = 0; k < plan.inputs.size(); ++k) {
    const bool tokens = plan.inputs[k].dtype != DType::kFloat32;
    if (!tokens || plan.pieces == 0) continue;
    for (const float v : samples.inputs[k]) {
      if (!(v >= 0 && v < static_cast<float>(plan.pieces)))
        return InvalidInput("token {}, the model knows those from 0 to {}", v, plan.pieces - 1);
    }
  }
  return {};
}

Status CheckSamples(const TrainingPlan& plan, const LabelledSamples& samples) {
  if (samples.inputs.size() != plan.inputs.size())
    return InvalidInput("the samples have {} inputs, the model {}", samples.inputs.size(),
                        plan.inputs.size());
  for (size_t i = 0; i < plan.inputs.size(); ++i) {
    std::vector<int64_t> wanted = plan.inputs[i].shape.sizes();
    wanted.erase(wanted.begin());
    if (wanted != samples.sizes[i])
      return InvalidInput("a sample is {}, the model takes {}", Shape(samples.sizes[i]).ToString(),
                          Shape(wanted).ToString());
  }
  if (samples.real() && samples.target_elements != plan.classes)
    return InvalidInput("a target of {} numbers, the model's output has {} for each sample",
                        samples.target_elements, plan.classes);
  for (size_t i = 0; i < samples.labels.size(); ++i) {
    if (samples.labels[i] >= plan.classes)
      return InvalidInput("sample {} has label {}, the model has {} classes",
                          static_cast<int64_t>(i) / samples.rows, samples.labels[i], plan.classes);
  }
  return CheckTokens(plan, samples);
}

// What of a recipe real targets leave without a meaning.
Status CheckTargets(const TrainingRecipe& recipe, const LabelledSamples& samples) {
  if (!samples.real()) return {};
  if (!FindRow(AllLosses(), recipe.loss)->real) {
    std::string names;
    for (const LossDef* loss : AllLosses()) {
      if (loss->real) names += (names.empty() ? "" : ", ") + std::string(loss->name);
    }
    return Fail(ErrorCode::kUsage, "--loss {}: of classes; --targets are real numbers: {}",
                recipe.loss, names);
  }
  if (recipe.label_smoothing > 0)
    return Fail(ErrorCode::kUsage, "--label-smoothing {}: of labels, not of --targets",
                recipe.label_smoothing);
  if (recipe.distill != TrainingRecipe().distill)
    return Fail(ErrorCode::kUsage, "--distill {}: a temperature of classes, not of --targets",
                recipe.distill);
  return {};
}

// A learner and how far it is.
class Run {
 public:
  Run(const LabelledSamples& samples, const TrainingRecipe& recipe, const TrainingHooks& hooks,
      std::vector<Augmentation> augmentations)
      : recipe_(recipe),
        hooks_(hooks),
        loss_(FindRow(AllLosses(), recipe.loss)),
        optimizer_(FindRow(AllOptimizers(), recipe.optimizer)),
        schedule_(FindRow(AllSchedules(), recipe.schedule)),
        observing_(ObservingScore(recipe)),
        count_(samples.count()),
        rows_(samples.rows),
        real_(samples.real()),
        tokens_(samples.tokens),
        feeder_(samples, std::move(augmentations), recipe.mixup, recipe.seed) {}

  int slots() const { return optimizer_->slots; }
  void Use(std::unique_ptr<Learner> learner) { learner_ = std::move(learner); }
  void Use(std::unique_ptr<Pruner> pruner) { pruner_ = std::move(pruner); }
  // After the last epoch: what was pruned of the graph, if it lost channels.
  Result<std::optional<PruneReport>> Finish(Graph& graph) {
    if (pruner_ == nullptr) return std::nullopt;
    return pruner_->Finish(graph);
  }
  Learner& learner() { return *learner_; }
  int64_t steps_of_epoch() const { return count_ / learner_->batch(); }

  Result<EpochReport> Epoch(int64_t epoch) {
    const std::vector<int64_t> order = EpochOrder(count_, recipe_.seed, epoch);
    const int64_t steps = steps_of_epoch(), all = steps * recipe_.epochs, batch = learner_->batch();
    const auto warm_up = static_cast<int64_t>(std::lround(recipe_.warm_up * double(steps)));
    EpochReport report{.epoch = epoch + 1, .epochs = recipe_.epochs, .rows = rows_};
    int64_t correct = 0;
    const Stopwatch watch;
    for (int64_t i = 0; i < steps; ++i) {
      const int64_t step = epoch * steps + i;
      report.lr = LearningRate(*schedule_, recipe_.lr, step, all, warm_up);
      const std::span<const int64_t> taken(order.data() + i * batch, static_cast<size_t>(batch));
      const auto fill = [&](int64_t sample, std::span<float* const> inputs,
                            std::span<SampleTarget> targets) {
        feeder_(taken[static_cast<size_t>(sample)], epoch, taken, inputs, targets);
      };
      BatchSettings settings{.loss = loss_,
                             .smoothing = static_cast<float>(recipe_.label_smoothing)};
      std::vector<Tensor> taught;  // scores, features
      std::vector<const float*> places;
      if (hooks_.teacher.run) {
        EVOQ_ASSIGN(taught, Taught(fill));
        for (const Tensor& tensor : taught) places.push_back(tensor.data<float>());
        settings.teacher = places[0];
        settings.temperature = static_cast<float>(recipe_.distill);
        settings.teacher_share = static_cast<float>(recipe_.distill_share);
        settings.features = std::span(places).subspan(1);
        settings.feature_weight = static_cast<float>(recipe_.distill_features_weight);
      }
      BatchResult result = learner_->Compute(fill, settings);
      if (!std::isfinite(result.loss) || !std::isfinite(result.norm))
        return Diverged(i, epoch,
                        fmt::format("the loss is {} and the gradient's norm {}",
                                    std::fabs(result.loss), std::fabs(result.norm)));
      if (observing_ != nullptr)
        observing_->observe(learner_->parameters(), learner_->gradients(), learner_->observed());
      learner_->Update(SettingsAt(step, report.lr), result);
      if (pruner_) AfterStep(step, all);
      if (const Status rounded = learner_->Round(); !rounded)
        return Diverged(i, epoch, rounded.error().message());
      report.loss += result.loss;
      correct += result.correct;
      if (hooks_.progress && step % kToldEvery == 0)
        EVOQ_TRY(hooks_.progress(static_cast<double>(step) / static_cast<double>(all)));
    }
    report.seconds = watch.ms() / 1000;
    if (pruner_) report.sparsity = pruner_->Sparsity();
    const auto samples = static_cast<double>(steps * batch);
    report.loss /= static_cast<double>(steps);
    if (!real_)
      report.accuracy = static_cast<double>(correct) / (samples * static_cast<double>(rows_));
    report.images_per_s = samples / std::max(report.seconds, 1e-9);
    return report;
  }

 private:
  static tl::unexpected<Error> Diverged(int64_t step, int64_t epoch, const std::string& what) {
    return Fail(ErrorCode::kConditionFailed,
                "step {} of epoch {}: {}: training has diverged; try a smaller --lr, --warm-up or "
                "--clip-norm",
                step + 1, epoch + 1, what);
  }

  void AfterStep(int64_t step, int64_t all) {
    std::span<const float> observed;
    if (observing_ != nullptr) observed = learner_->observed();
    pruner_->AfterStep(step, all, learner_->parameters(), observed);
  }

  // What the teacher says of a batch, as it is varied for its student.
  Result<std::vector<Tensor>> Taught(const Learner::Fill& fill) {
    std::vector<Tensor> inputs;
    for (TensorType type : learner_->plan().inputs) {
      type.dtype = DType::kFloat32;  // tokens are converted below
      type.shape[0] = learner_->batch();
      inputs.push_back(Tensor::Allocate(type));
    }
    learner_->pool().ParallelFor(learner_->batch(), 1, [&](int64_t begin, int64_t end) {
      std::vector<float*> places(inputs.size());
      std::vector<SampleTarget> targets(static_cast<size_t>(rows_));
      for (int64_t s = begin; s < end; ++s) {
        for (size_t k = 0; k < places.size(); ++k)
          places[k] =
              inputs[k].mutable_data<float>() + s * (inputs[k].elements() / learner_->batch());
        fill(s, places, targets);
      }
    });
    for (Tensor& input : inputs) {
      if (tokens_ != DType::kUndefined) input = AsTokens(input, tokens_);
    }
    EVOQ_ASSIGN(std::vector<Tensor> taught, hooks_.teacher.run(inputs));
    if (taught.size() != 1 + hooks_.teacher.features.size())
      return Fail(ErrorCode::kInternal, "the teacher gives {} values", taught.size());
    for (Tensor& tensor : taught) {
      EVOQ_ASSIGN(tensor, ToFloat32(tensor));
    }
    const int64_t batch = learner_->batch();
    if (taught[0].elements() != batch * rows_ * learner_->plan().classes)
      return InvalidInput("the teacher gives {} for {} samples, expected {} scores for each",
                          taught[0].type().ToString(), batch, learner_->plan().classes);
    for (const TrainingFeature& feature : learner_->plan().features) {
      const Tensor& tensor = taught[1 + feature.index];
      if (tensor.elements() != batch * feature.floats)
        return InvalidInput("{}: the teacher gives {} for {} samples, expected {} numbers for each",
                            hooks_.teacher.features[feature.index], tensor.type().ToString(), batch,
                            feature.floats);
    }
    return taught;
  }

  UpdateSettings SettingsAt(int64_t step, double rate) const {
    UpdateSettings settings;
    settings.optimizer = optimizer_;
    settings.clip_norm = recipe_.clip_norm;
    settings.ema = recipe_.ema;
    settings.update.rate = static_cast<float>(rate);
    settings.update.momentum = static_cast<float>(recipe_.momentum);
    settings.update.beta2 = static_cast<float>(recipe_.beta2);
    settings.update.epsilon = static_cast<float>(recipe_.epsilon);
    settings.update.decay = static_cast<float>(recipe_.weight_decay);
    settings.update.step = step + 1;
    return settings;
  }

  const TrainingRecipe& recipe_;
  const TrainingHooks& hooks_;
  const LossDef* loss_;
  const OptimizerDef* optimizer_;
  const ScheduleDef* schedule_;
  const PruneScore* observing_;  // null: the score of pruning, if any, observes nothing
  int64_t count_;
  int64_t rows_;
  bool real_;  // targets, not labels
  DType tokens_;
  Feeder feeder_;
  std::unique_ptr<Learner> learner_;
  std::unique_ptr<Pruner> pruner_;  // null: nothing is pruned
};

// What parameters of these names have in place of the recipe's decay.
Status SetDecay(TrainingPlan& plan, const std::vector<std::string>& options) {
  EVOQ_ASSIGN(const std::vector<DecayGroup> groups, ParseDecay(options));
  for (size_t i = 0; i < groups.size(); ++i) {
    bool any = false;
    std::vector<std::string_view> names;
    for (TrainedConstant& c : plan.parameters) {
      names.push_back(c.name);
      if (!GlobMatch(groups[i].pattern, c.name)) continue;
      c.decay = groups[i].decay;
      any = true;
    }
    if (!any)
      return Fail(ErrorCode::kUsage, "--decay {}: no parameter of that name{}", options[i],
                  NearestHint(groups[i].pattern, names));
  }
  return {};
}

// The learner for a recipe: its batch is one of whole shards.
Result<std::unique_ptr<Learner>> LearnerFor(const Graph& graph, const LabelledSamples& samples,
                                            const TrainingRecipe& recipe,
                                            const TrainingHooks& hooks, int threads,
                                            const TrainedAs& as) {
  QuantizedModel* const quantized = as.quantized;
  const Ranks* const ranks = as.ranks;
  TrainingPlanOptions options;
  options.features = hooks.teacher.features;
  options.recompute = recipe.recompute;
  options.freeze = recipe.freeze;
  if (!recipe.lora.empty()) options.only = AdapterPatterns();
  options.last = FindRow(AllLosses(), recipe.loss)->last;
  options.samples = std::min(recipe.shard, recipe.batch);
  options.rows = samples.rows;
  if (samples.tokens != DType::kUndefined) {
    if (!samples.sizes[0].empty()) options.length = samples.sizes[0][0];
    if (recipe.mixup > 0)
      return Fail(ErrorCode::kUsage, "--mixup {}: tokens cannot be mixed", recipe.mixup);
  }
  EVOQ_ASSIGN(TrainingPlan plan,
              quantized != nullptr ? quantized->Plan(options) : MakeTrainingPlan(graph, options));
  if (recipe.batch % plan.samples != 0)
    return Fail(ErrorCode::kUsage, "--batch {}: expected a multiple of the {} samples that {}",
                recipe.batch, plan.samples,
                FixedBatch(graph) > 0 ? "the model fixes" : "a shard has (--shard N)");
  if (samples.count() < recipe.batch)
    return Fail(ErrorCode::kUsage, "--batch {}: there are {} samples", recipe.batch,
                samples.count());
  EVOQ_TRY(CheckSamples(plan, samples));
  EVOQ_TRY(CheckTargets(recipe, samples));
  EVOQ_TRY(SetDecay(plan, recipe.decay));
  if (plan.features.empty() && !options.features.empty())
    return Fail(ErrorCode::kUsage, "--distill-features {}: no parameter that is trained changes it",
                options.features[0]);
  EVOQ_ASSIGN(const Isa isa, SelectIsa());
  const int64_t shards = recipe.batch / plan.samples;
  if (ranks != nullptr && ranks->size() > shards)
    return Fail(ErrorCode::kUsage,
                "--mpi: {} processes for batches of {} shards, expected at most as many (--batch, "
                "--shard)",
                ranks->size(), shards);
  EVOQ_ASSIGN(auto learner, Learner::Create(quantized != nullptr ? quantized->simulation() : graph,
                                            std::move(plan), shards, threads, isa,
                                            {.ranks = ranks, .rounder = as.weights}));
  if (recipe.ema > 0) learner->Average();
  if (ObservingScore(recipe) != nullptr) learner->KeepObserved();
  return learner;
}

// Processes that train together begin alike.
Status CheckAlike(const Ranks& ranks, Learner& learner, const LabelledSamples& samples,
                  const TrainingRecipe& recipe) {
  EVOQ_ASSIGN(const Isa isa, SelectIsa());
  const std::string options = ToJson(recipe).dump(), set = IsaName(isa);
  EVOQ_TRY(ranks.CheckSame(HashOf(std::as_bytes(std::span(options))), "other options"));
  EVOQ_TRY(ranks.CheckSame(HashOf(std::as_bytes(std::span(set))), "another instruction set"));
  uint64_t data = HashOf(std::as_bytes(std::span(samples.labels)));
  data = HashOf(std::as_bytes(std::span(samples.targets)), data);
  for (const auto& input : samples.inputs) data = HashOf(std::as_bytes(std::span(input)), data);
  EVOQ_TRY(ranks.CheckSame(data, "other samples"));
  const uint64_t parameters = HashOf(std::as_bytes(learner.parameters()));
  return ranks.CheckSame(HashOf(std::as_bytes(learner.averages()), parameters), "other parameters");
}

// Brings what was trained into the graph.
Status WriteTrained(Run& run, Graph& graph, QuantizedModel* quantized) {
  if (quantized == nullptr) return run.learner().WriteTo(graph);
  EVOQ_TRY(run.learner().WriteTo(quantized->simulation()));
  quantized->Absorb();
  EVOQ_ASSIGN(graph, quantized->Integers());
  return {};
}

// What comes after an epoch's steps.
Status AfterEpoch(Run& run, Graph& graph, EpochReport& report, TrainingState& state,
                  const TrainingFiles& files, const TrainingHooks& hooks, const TrainedAs& as,
                  TrainingOutcome& outcome) {
  state.epoch = report.epoch;
  if (!files.checkpoint.empty())
    EVOQ_TRY(WriteCheckpoint(run.learner(), state, run.slots(), files.checkpoint));
  EVOQ_TRY(WriteTrained(run, graph, as.quantized));
  if (report.epoch == report.epochs) {
    EVOQ_ASSIGN(outcome.pruned, run.Finish(graph));
  }
  if (hooks.test) {
    Graph rounded;
    if (as.weights != nullptr) {
      rounded = graph;
      EVOQ_TRY(run.learner().WriteTo(rounded, /*rounded=*/true));
    }
    EVOQ_ASSIGN(const Measured measured, hooks.test(as.weights != nullptr ? rounded : graph));
    report.test = measured;
  }
  return hooks.epoch ? hooks.epoch(report) : Status();
}

}  // namespace

Result<TrainingOutcome> TrainGraph(Graph& graph, const LabelledSamples& samples,
                                   const TrainingRecipe& recipe, const TrainingFiles& files,
                                   int threads, const TrainingHooks& hooks, const TrainedAs& as) {
  QuantizedModel* const quantized = as.quantized;
  const Ranks* const ranks = as.ranks;
  EVOQ_TRY(CheckRecipe(recipe));
  EVOQ_ASSIGN(std::vector<Augmentation> augmentations, ParseAugmentations(recipe.augment));
  Run run(samples, recipe, hooks, std::move(augmentations));
  EVOQ_ASSIGN(auto learner, LearnerFor(graph, samples, recipe, hooks, threads, as));
  run.Use(std::move(learner));
  if (ranks != nullptr) EVOQ_TRY(CheckAlike(*ranks, run.learner(), samples, recipe));
  TrainingState state{ToJson(recipe), files.model, samples.count(), 0};
  TrainingOutcome outcome;
  if (!files.resume.empty()) {
    EVOQ_ASSIGN(outcome.resumed_at,
                ReadCheckpoint(run.learner(), state, run.slots(), files.resume));
    EVOQ_TRY(run.learner().Round());
    EVOQ_TRY(WriteTrained(run, graph, quantized));
  }
  EVOQ_ASSIGN(auto pruner,
              Pruner::Create(quantized != nullptr ? quantized->real() : graph, run.learner().plan(),
                             recipe, run.learner().parameters()));
  run.Use(std::move(pruner));
  if (outcome.resumed_at == recipe.epochs) {
    EVOQ_ASSIGN(outcome.pruned, run.Finish(graph));
  }
  for (const TrainedConstant& c : run.learner().plan().parameters) outcome.parameters += c.elements;
  outcome.memory_bytes = run.learner().memory_bytes();
  const Stopwatch watch;
  for (int64_t epoch = outcome.resumed_at; epoch < recipe.epochs; ++epoch) {
    EVOQ_ASSIGN(EpochReport report, run.Epoch(epoch));
    const auto done = static_cast<double>(epoch + 1 - outcome.resumed_at);
    report.remaining_s = watch.ms() / 1000 / done * static_cast<double>(recipe.epochs - epoch - 1);
    EVOQ_TRY(AfterEpoch(run, graph, report, state, files, hooks, as, outcome));
    outcome.seconds += report.seconds;
    outcome.steps += run.steps_of_epoch();
    outcome.epochs.push_back(std::move(report));
  }
  return outcome;
}

}  // namespace evoq
