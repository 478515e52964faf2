// What changes weights: Prune, Train.
#include "workflow/train.h"

#include "toolchain/enter.h"
#include "workflow/prune.h"

namespace evoq::toolchain {
inline namespace v1 {

std::optional<PruneResult> Prune(const std::string& model, const std::string& output,
                                 const PruneOptions& o, const Follow& follow, std::string* error) {
  return Enter<PruneResult>(follow, error, [&](const evoq::Follow& inner) -> Result<PruneResult> {
    PruneJob job;
    job.model = model;
    job.output = output;
    job.options.pattern = o.pattern;
    job.options.score = o.score;
    job.options.sparsity = o.sparsity;
    job.options.scope = o.scope;
    job.options.layers = o.layers;
    job.options.multiple = o.multiple;
    EVOQ_ASSIGN(const PrunedModel pruned, evoq::Prune(job, inner));
    PruneResult out;
    for (const evoq::PrunedLayer& l : pruned.report.layers)
      out.layers.push_back({l.node, l.weights - l.zeros_before, l.nonzero()});
    for (const PrunedChannels& l : pruned.report.channels)
      out.layers.push_back({l.node, l.weights_before, l.weights});
    for (const auto& [node, why] : pruned.report.left) out.left.push_back(node);
    out.report = ReportOf(Tell(pruned));
    return out;
  });
}

namespace {

// The model's recipe with what was set.
TrainingRecipe RecipeOf(const std::string& model, const TrainOptions& o) {
  TrainingRecipe recipe = RecipeFor(model, o.scheme, o.lora);
  const auto set = [](const auto& from, auto& to) {
    if (from) to = *from;
  };
  set(o.epochs, recipe.epochs);
  set(o.batch, recipe.batch);
  set(o.shard, recipe.shard);
  set(o.lr, recipe.lr);
  set(o.warm_up, recipe.warm_up);
  set(o.momentum, recipe.momentum);
  set(o.beta2, recipe.beta2);
  set(o.weight_decay, recipe.weight_decay);
  set(o.label_smoothing, recipe.label_smoothing);
  set(o.clip_norm, recipe.clip_norm);
  set(o.optimizer, recipe.optimizer);
  set(o.schedule, recipe.schedule);
  set(o.loss, recipe.loss);
  set(o.augment, recipe.augment);
  set(o.distill, recipe.distill);
  set(o.distill_share, recipe.distill_share);
  recipe.distill_features = o.distill_features;
  set(o.distill_features_weight, recipe.distill_features_weight);
  set(o.seed, recipe.seed);
  set(o.context, recipe.context);
  set(o.ema, recipe.ema);
  set(o.mixup, recipe.mixup);
  recipe.freeze = o.freeze;
  recipe.decay = o.decay;
  recipe.scheme = o.scheme;
  set(o.block, recipe.block);
  recipe.weight_bits = o.weight_bits;
  recipe.activation_bits = o.activation_bits;
  recipe.exclude = o.exclude;
  recipe.prune = o.prune;
  set(o.sparsity, recipe.sparsity);
  set(o.prune_score, recipe.prune_score);
  set(o.prune_scope, recipe.prune_scope);
  set(o.prune_multiple, recipe.prune_multiple);
  recipe.lora = o.lora;
  recipe.recompute = o.recompute;
  return recipe;
}

}  // namespace

std::optional<TrainResult> Train(const std::string& model, const std::string& output,
                                 const TrainOptions& o, const Follow& follow, std::string* error) {
  return Enter<TrainResult>(follow, error, [&](const evoq::Follow& inner) -> Result<TrainResult> {
    TrainJob job;
    job.model = model;
    job.output = output;
    job.files = {o.data, o.labels, o.test, o.test_labels, o.targets, o.test_targets};
    job.preprocess = o.preprocess;
    job.limit = o.limit;
    job.checkpoint = o.checkpoint;
    job.resume = o.resume;
    job.log = o.log;
    job.tensorboard = o.tensorboard;
    job.tokenizer = o.tokenizer;
    job.hold_out = o.hold_out;
    job.teacher = o.teacher;
    job.recipe = RecipeOf(model, o);
    if (!o.targets.empty() && !o.loss) job.recipe.loss = kLossOfTargets;
    job.threads = o.threads;
    EVOQ_ASSIGN(const Trained trained, evoq::Train(job, inner));
    TrainResult out{.parameters = trained.outcome.parameters,
                    .output_bytes = trained.output_bytes,
                    .report = ReportOf(Tell(trained))};
    for (const EpochReport& e : trained.outcome.epochs) {
      const Measured test = e.test.value_or(Measured());
      out.epochs.push_back({e.epoch, e.loss, e.accuracy.value_or(0), test.accuracy, e.seconds,
                            test.loss, test.error});
    }
    if (trained.agreement) {
      out.compared_samples = trained.agreement->samples;
      out.equal_scores = trained.agreement->scores;
    }
    return out;
  });
}

}  // namespace v1
}  // namespace evoq::toolchain
