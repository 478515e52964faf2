// Scores of pruning: what a block of weights is worth. A row for each.
#pragma once

#include <cstdint>
#include <span>

namespace evoq {

// The blocks of one layer. A block is what goes or stays as a whole.
struct PruneBlocks {
  std::span<const float> weights;
  std::span<const int32_t> block_of;  // of each weight
  std::span<const int64_t> sizes;     // weights of each block, at least 1
  std::span<const float> observed;    // of each weight, by PruneScore::observe; empty without it
};

// What scores of different layers are to each other.
enum class ScoreScale {
  kLayer,  // nothing: they grow with the layer's weights
  kAll,    // comparable
  kLoss,   // comparable, and those of a block's weights add up to what the block is worth: a mean
           // times the number of its weights
};

struct PruneScore {
  const char* name;
  const char* doc;
  const char* paper;
  ScoreScale scale = ScoreScale::kLayer;
  // scores[b] of the blocks of one layer; blocks of the lowest scores are pruned first. Sums are
  // taken in the order of the weights.
  void (*score)(const PruneBlocks& blocks, std::span<double> scores);
  // Of a score that training shows: from each weight w and its gradient g at each step of the
  // optimizer, before it changes w, what is kept of it (`observed`, which begins as 0). nullptr:
  // the weights alone tell.
  void (*observe)(std::span<const float> w, std::span<const float> g,
                  std::span<float> observed) = nullptr;
};

std::span<const PruneScore* const> AllPruneScores();

}  // namespace evoq
