// Patterns of pruning: which weights become zero together (docs/pruning.md). A row for each.
#pragma once

#include <cstdint>
#include <span>

namespace evoq {

struct PrunePattern {
  const char* name;
  const char* doc;
  // A block is so many output channels x so many input channels of one tap that follow one another.
  int64_t columns = 1, depth = 1;
  // Not 0: of each `of` blocks that follow one another along the input channels, `keep` stay,
  // whatever the sparsity.
  int64_t keep = 0, of = 0;
  // What multiplies only the blocks that stay; null: nothing does, the time is that of dense
  // weights.
  const char* kernels = nullptr;
  // Whole channels go (prune/channels.h): shapes change, and nothing is 0.
  bool channels = false;
  double sparsity = 0.75;  // the share that is pruned by default
};

std::span<const PrunePattern* const> AllPrunePatterns();

}  // namespace evoq
