#include "prune/score.h"

namespace evoq {
namespace {

// The diagonal of the Hessian as the mean square of the gradient (empirical Fisher information) of
// the last steps: about 100 of them, since the weights change.
constexpr float kKept = 0.99f;

void Observe(std::span<const float>, std::span<const float> g, std::span<float> observed) {
  for (size_t i = 0; i < g.size(); ++i)
    observed[i] = kKept * observed[i] + (1 - kKept) * (g[i] * g[i]);
}

// The mean over the block of h w^2 / 2, what the loss grows by where w becomes 0.
void Obd(const PruneBlocks& blocks, std::span<double> scores) {
  for (double& score : scores) score = 0;
  for (size_t i = 0; i < blocks.observed.size(); ++i) {
    const double w = blocks.weights[i], h = blocks.observed[i];
    scores[static_cast<size_t>(blocks.block_of[i])] += h * w * w / 2;
  }
  for (size_t b = 0; b < scores.size(); ++b) scores[b] /= static_cast<double>(blocks.sizes[b]);
}

}  // namespace

extern const PruneScore kScoreObd;
const PruneScore kScoreObd = {
    .name = "obd",
    .doc =
        "what the loss grows by without a block, by the second order of its expansion (of evoq "
        "train)",
    .paper =
        "LeCun, Denker, Solla, \"Optimal Brain Damage\", 1990, with the Hessian of Theis, "
        "Korshunova, Tejani, Huszar, \"Faster gaze prediction with dense networks and Fisher "
        "pruning\", 2018",
    .scale = ScoreScale::kLoss,
    .score = Obd,
    .observe = Observe,
};

}  // namespace evoq
