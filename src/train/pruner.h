// Pruning while a model is trained: the share of zeros rises step by step, and what is 0 stays 0.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "prune/prune.h"
#include "train/plan.h"
#include "train/recipe.h"

namespace evoq {

// The share of weights that are 0 after step `step` of `all`, from 0 on: it rises to `last` over
// the first half of the steps, fast at first (Zhu and Gupta, "To prune, or not to prune: exploring
// the efficacy of pruning for model compression", 2017):
//   last * (1 - (1 - t)^3), t = min(1, (step + 1) / (all / 2))
double SparsityAt(double last, int64_t step, int64_t all);

// The pattern of TrainingRecipe::prune that sets no weight to 0 and keeps those that are.
inline constexpr char kHoldZeros[] = "zeros";

// Errors: kUsage for a recipe whose pruning fits no rows.
Status CheckPruning(const TrainingRecipe& recipe);

class Pruner {
 public:
  virtual ~Pruner() = default;
  // Null where the recipe does not prune. `parameters` as they are now, of a run that goes on as
  // well: what is 0 is held. Errors: those of CheckPruning and FindPrunables; kUnsupported where no
  // trained weight fits the pattern.
  static Result<std::unique_ptr<Pruner>> Create(const Graph& graph, const TrainingPlan& plan,
                                                const TrainingRecipe& recipe,
                                                std::span<const float> parameters);

  // After `parameters` were changed by step `step` of `all`; `observed` lies as they do
  // (PruneScore::observe), and is empty where the score does not observe.
  virtual void AfterStep(int64_t step, int64_t all, std::span<float> parameters,
                         std::span<const float> observed) = 0;
  // Of what is pruned, the share that is 0 or goes.
  virtual double Sparsity() const = 0;
  // When training is over: takes from the graph, which has the parameters, what is not to stay.
  // Nothing where zeros stay. Errors: those of RemoveAndReport.
  virtual Result<std::optional<PruneReport>> Finish(Graph& graph) = 0;
};

// The score of a recipe that prunes, if it observes training; null for others.
const PruneScore* ObservingScore(const TrainingRecipe& recipe);
// Whether weights are chosen anew after this step of a schedule: at 64 times while the share rises.
bool ChoosesAt(int64_t step, int64_t all);
PruneOptions PruneOptionsOf(const TrainingRecipe& recipe);

}  // namespace evoq
