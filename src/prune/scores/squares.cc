#include "prune/score.h"

namespace evoq {
namespace {

void Squares(const PruneBlocks& blocks, std::span<double> scores) {
  const auto [weights, block_of, sizes, _] = blocks;
  for (double& score : scores) score = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    const double w = weights[i];
    scores[static_cast<size_t>(block_of[i])] += w * w;
  }
  for (size_t b = 0; b < scores.size(); ++b) scores[b] /= static_cast<double>(sizes[b]);
}

}  // namespace

extern const PruneScore kScoreSquares;
const PruneScore kScoreSquares = {
    .name = "squares",
    .doc = "the mean square of a block's weights: few large weights count more than with magnitude",
    .paper = "Narang, Undersander, Diamos, \"Block-Sparse Recurrent Neural Networks\", 2017",
    .score = Squares,
};

}  // namespace evoq
