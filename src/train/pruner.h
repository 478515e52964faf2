// Pruning while a model is trained: the share of zeros rises step by step, and what is 0 stays 0.
#pragma once

#include <memory>
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
  // Null where the recipe does not prune. `parameters` as they are now, of a run that goes on as
  // well: what is 0 is held. Errors: those of CheckPruning and FindPrunables; kUnsupported where no
  // trained weight fits the pattern.
  static Result<std::unique_ptr<Pruner>> Create(const Graph& graph, const TrainingPlan& plan,
                                                const TrainingRecipe& recipe,
                                                std::span<const float> parameters);

  // After `parameters` were changed by step `step` of `all`.
  void AfterStep(int64_t step, int64_t all, std::span<float> parameters);
  // Of the weights that are pruned, the share that is 0.
  double Sparsity() const;

 private:
  Prunables found_;              // weights that are trained,
  std::vector<int64_t> offset_;  // and where they begin
  PruneRows rows_ = {};
  bool global_ = false, grows_ = false;
  std::vector<std::vector<bool>> held_;

  void Hold(std::span<const float> parameters);
};

}  // namespace evoq
