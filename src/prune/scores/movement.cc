#include "prune/score.h"

namespace evoq {
namespace {

// - sum over the steps of w g, which grows where a step leads a weight away from 0.
void Observe(std::span<const float> w, std::span<const float> g, std::span<float> observed) {
  for (size_t i = 0; i < w.size(); ++i) observed[i] -= w[i] * g[i];
}

void Movement(const PruneBlocks& blocks, std::span<double> scores) {
  for (double& score : scores) score = 0;
  for (size_t i = 0; i < blocks.observed.size(); ++i)
    scores[static_cast<size_t>(blocks.block_of[i])] += static_cast<double>(blocks.observed[i]);
  for (size_t b = 0; b < scores.size(); ++b) scores[b] /= static_cast<double>(blocks.sizes[b]);
}

}  // namespace

extern const PruneScore kScoreMovement;
const PruneScore kScoreMovement = {
    .name = "movement",
    .doc = "how far training moves a block's weights away from 0 (of evoq train)",
    .paper = "Sanh, Wolf, Rush, \"Movement Pruning: Adaptive Sparsity by Fine-Tuning\", 2020",
    .scale = ScoreScale::kLoss,
    .score = Movement,
    .observe = Observe,
};

}  // namespace evoq
