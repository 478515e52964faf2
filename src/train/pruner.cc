#include "train/pruner.h"

#include <algorithm>

#include "base/rows.h"
#include "train/channel_pruner.h"

namespace evoq {

PruneOptions PruneOptionsOf(const TrainingRecipe& recipe) {
  PruneOptions options;
  options.trains = true;
  options.multiple = recipe.prune_multiple;
  options.pattern = recipe.prune == kHoldZeros ? "unstructured" : recipe.prune;
  options.score = recipe.prune_score;
  options.scope = recipe.prune_scope;
  if (recipe.sparsity > 0) options.sparsity = recipe.sparsity;
  return options;
}

const PruneScore* ObservingScore(const TrainingRecipe& recipe) {
  if (recipe.prune.empty() || recipe.prune == kHoldZeros) return nullptr;
  const PruneScore* const score = FindRow(AllPruneScores(), recipe.prune_score);
  return score != nullptr && score->observe != nullptr ? score : nullptr;
}

bool ChoosesAt(int64_t step, int64_t all) {
  constexpr int64_t kTimes = 64;
  const int64_t rise = std::max<int64_t>(1, all / 2), every = std::max<int64_t>(1, rise / kTimes);
  return step + 1 == rise || (step + 1 < rise && (step + 1) % every == 0);
}

double SparsityAt(double last, int64_t step, int64_t all) {
  const double t = std::min(1.0, double(step + 1) / std::max(1.0, double(all) / 2));
  return last * (1 - (1 - t) * (1 - t) * (1 - t));
}

Status CheckPruning(const TrainingRecipe& recipe) {
  if (recipe.prune.empty()) {
    const TrainingRecipe plain;
    if (recipe.sparsity != 0)
      return Fail(ErrorCode::kUsage, "--sparsity {}: expected --prune", recipe.sparsity);
    if (recipe.prune_score != plain.prune_score)
      return Fail(ErrorCode::kUsage, "--prune-score {}: expected --prune", recipe.prune_score);
    if (recipe.prune_scope != plain.prune_scope)
      return Fail(ErrorCode::kUsage, "--prune-scope {}: expected --prune", recipe.prune_scope);
    if (recipe.prune_multiple != plain.prune_multiple)
      return Fail(ErrorCode::kUsage, "--prune-multiple {}: expected --prune",
                  recipe.prune_multiple);
    return {};
  }
  if (recipe.prune == kHoldZeros && recipe.sparsity != 0)
    return Fail(ErrorCode::kUsage, "--sparsity {}: --prune zeros holds those that are there",
                recipe.sparsity);
  EVOQ_ASSIGN(const PruneRows rows, CheckPruneOptions(PruneOptionsOf(recipe)));
  if (rows.pattern->channels && !recipe.scheme.empty())
    return Fail(ErrorCode::kUsage,
                "--prune {}: not with --scheme {}: prune in float32, then train the smaller model "
                "with integers",
                recipe.prune, recipe.scheme);
  return {};
}

namespace {

// Of patterns whose weights become 0.
class BlockPruner : public Pruner {
 public:
  static Result<std::unique_ptr<Pruner>> Create(const Graph& graph, const TrainingPlan& plan,
                                                const TrainingRecipe& recipe,
                                                std::span<const float> parameters);
  void AfterStep(int64_t step, int64_t all, std::span<float> parameters,
                 std::span<const float> observed) override;
  double Sparsity() const override;
  Result<std::optional<PruneReport>> Finish(Graph&) override { return std::nullopt; }

 private:
  Prunables found_;              // weights that are trained,
  std::vector<int64_t> offset_;  // and where they begin
  PruneRows rows_ = {};
  bool global_ = false, grows_ = false;
  std::vector<std::vector<bool>> held_;

  void Hold(std::span<const float> parameters);
};

Result<std::unique_ptr<Pruner>> BlockPruner::Create(const Graph& graph, const TrainingPlan& plan,
                                                    const TrainingRecipe& recipe,
                                                    std::span<const float> parameters) {
  const PruneOptions options = PruneOptionsOf(recipe);
  auto pruner = std::make_unique<BlockPruner>();
  EVOQ_ASSIGN(pruner->rows_, CheckPruneOptions(options));
  EVOQ_ASSIGN(Prunables found, FindPrunables(graph, options));
  for (PrunableWeight& weight : found.weights) {
    const auto trained = std::ranges::find_if(
        plan.parameters, [&](const TrainedConstant& c) { return c.name == weight.weight; });
    if (trained == plan.parameters.end()) continue;  // frozen
    EVOQ_CHECK(trained->elements == static_cast<int64_t>(weight.block_of.size()), "{}",
               weight.weight);
    pruner->offset_.push_back(trained->offset);
    pruner->found_.weights.push_back(std::move(weight));
  }
  if (pruner->found_.weights.empty())
    return Unsupported("--prune {}: no weight that is trained fits", recipe.prune);
  pruner->global_ = recipe.prune_scope == "global";
  pruner->grows_ = recipe.prune != kHoldZeros;
  pruner->Hold(parameters);
  return pruner;
}

void BlockPruner::Hold(std::span<const float> parameters) {
  held_.clear();
  for (size_t i = 0; i < found_.weights.size(); ++i) {
    const float* const w = parameters.data() + offset_[i];
    std::vector<bool>& held = held_.emplace_back(found_.weights[i].block_of.size());
    for (size_t k = 0; k < held.size(); ++k) held[k] = w[k] == 0;
  }
}

void BlockPruner::AfterStep(int64_t step, int64_t all, std::span<float> parameters,
                            std::span<const float> observed) {
  for (size_t i = 0; i < held_.size(); ++i) {
    float* const w = parameters.data() + offset_[i];
    for (size_t k = 0; k < held_[i].size(); ++k) {
      if (held_[i][k]) w[k] = 0;
    }
  }
  if (!grows_ || !ChoosesAt(step, all)) return;
  PruneRows rows = rows_;
  rows.sparsity = SparsityAt(rows_.sparsity, step, all);
  // What is chosen by groups (2:4) has one share only, which it gets at the end of the rise.
  if (rows.pattern->of > 0 && rows.sparsity < rows_.sparsity) return;
  std::vector<std::span<float>> weights;
  std::vector<std::span<const float>> seen;
  for (size_t i = 0; i < found_.weights.size(); ++i) {
    const auto offset = static_cast<size_t>(offset_[i]), n = found_.weights[i].block_of.size();
    weights.push_back(parameters.subspan(offset, n));
    if (!observed.empty()) seen.push_back(observed.subspan(offset, n));
  }
  PruneWeights(found_, rows, global_, weights, seen);
  Hold(parameters);
}

double BlockPruner::Sparsity() const {
  int64_t zeros = 0, weights = 0;
  for (const std::vector<bool>& held : held_) {
    zeros += std::count(held.begin(), held.end(), true);
    weights += static_cast<int64_t>(held.size());
  }
  return weights == 0 ? 0 : double(zeros) / double(weights);
}

}  // namespace

Result<std::unique_ptr<Pruner>> Pruner::Create(const Graph& graph, const TrainingPlan& plan,
                                               const TrainingRecipe& recipe,
                                               std::span<const float> parameters) {
  if (recipe.prune.empty()) return std::unique_ptr<Pruner>();
  EVOQ_TRY(CheckPruning(recipe));
  EVOQ_ASSIGN(const PruneRows rows, CheckPruneOptions(PruneOptionsOf(recipe)));
  if (rows.pattern->channels) return MakeChannelPruner(graph, plan, recipe, parameters);
  return BlockPruner::Create(graph, plan, recipe, parameters);
}

}  // namespace evoq
