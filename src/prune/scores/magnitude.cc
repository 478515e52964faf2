#include <cmath>

#include "prune/score.h"

namespace evoq {
namespace {

void Magnitude(const PruneBlocks& blocks, std::span<double> scores) {
  const auto [weights, block_of, sizes, _] = blocks;
  for (double& score : scores) score = 0;
  for (size_t i = 0; i < weights.size(); ++i)
    scores[static_cast<size_t>(block_of[i])] += std::fabs(static_cast<double>(weights[i]));
  for (size_t b = 0; b < scores.size(); ++b) scores[b] /= static_cast<double>(sizes[b]);
}

}  // namespace

extern const PruneScore kScoreMagnitude;
const PruneScore kScoreMagnitude = {
    .name = "magnitude",
    .doc = "the mean magnitude of a block's weights",
    .paper =
        "Han, Pool, Tran, Dally, \"Learning both Weights and Connections for Efficient Neural "
        "Networks\", 2015",
    .score = Magnitude,
};

}  // namespace evoq
