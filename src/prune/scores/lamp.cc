#include <algorithm>
#include <numeric>
#include <vector>

#include "prune/score.h"

namespace evoq {
namespace {

// Of blocks b in the order of their squares s: s[b] / sum over those from b on of s. Layers are
// comparable: the largest block of each has the score 1.
void Lamp(const PruneBlocks& blocks, std::span<double> scores) {
  const auto [weights, block_of, sizes, _] = blocks;
  std::vector<double> squares(scores.size());
  for (size_t i = 0; i < weights.size(); ++i) {
    const double w = weights[i];
    squares[static_cast<size_t>(block_of[i])] += w * w;
  }
  for (size_t b = 0; b < squares.size(); ++b) squares[b] /= static_cast<double>(sizes[b]);
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return squares[a] > squares[b]; });
  double sum = 0;
  for (const size_t b : order) {  // from the largest down
    sum += squares[b];
    scores[b] = sum > 0 ? squares[b] / sum : 0;
  }
}

}  // namespace

extern const PruneScore kScoreLamp;
const PruneScore kScoreLamp = {
    .name = "lamp",
    .doc =
        "a block's square in that of all blocks of its layer that are no smaller, for --scope "
        "global",
    .paper =
        "Lee, Park, Mo, Ahn, Shin, \"Layer-Adaptive Sparsity for the Magnitude-based Pruning\", "
        "2021",
    .scale = ScoreScale::kAll,
    .score = Lamp,
};

}  // namespace evoq
