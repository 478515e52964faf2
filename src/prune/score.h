// Scores of pruning: what a block of weights is worth. A row for each.
#pragma once

#include <cstdint>
#include <span>

namespace evoq {

struct PruneScore {
  const char* name;
  const char* doc;
  const char* paper;
  // scores[b] of the blocks of one layer, from block_of[i], the block of weight i; blocks of the
  // lowest scores are pruned first. Sums are taken in the order of the weights. `sizes`: weights of
  // each block, at least 1.
  void (*score)(std::span<const float> weights, std::span<const int32_t> block_of,
                std::span<const int64_t> sizes, std::span<double> scores);
};

std::span<const PruneScore* const> AllPruneScores();

}  // namespace evoq
