// Pruning of a graph's weights: which blocks become zero.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "prune/pattern.h"
#include "prune/score.h"

namespace evoq {

struct PruneOptions {
  std::string pattern = "block-4x4", score = "magnitude";
  // The share of weights that become zero; none: 0.75, or that of 2:4.
  std::optional<double> sparsity;
  std::string scope = "layer";      // each layer has that share, or "global": all together
  std::vector<std::string> layers;  // glob patterns of nodes; none: all
};

// The rows of options that were checked.
struct PruneRows {
  const PrunePattern* pattern;
  const PruneScore* score;
  double sparsity;
};
// Errors: kUsage for names that are none, a sparsity outside 0 .. 1 (exclusive) or another one than
// the pattern's own; kUnsupported for a pattern that cannot be made yet.
Result<PruneRows> CheckPruneOptions(const PruneOptions& options);

// A weight whose blocks may become zero.
struct PrunableWeight {
  std::string node, weight;  // names: of its first reader, and of the constant
  ValueId value;
  std::vector<int32_t> block_of;  // of each element
  std::vector<int64_t> sizes;     // elements of each block, at least 1
  // Blocks that follow one another in a group of PrunePattern::of: its number; empty without `of`.
  std::vector<int32_t> group_of;
};

struct Prunables {
  std::vector<PrunableWeight> weights;
  std::vector<std::pair<std::string, std::string>> left;  // node -> why it stays dense
};

// The constant float32 weights of the products that the pattern fits, in execution order. Errors:
// kUsage for a glob pattern that matches no product.
Result<Prunables> FindPrunables(const Graph& graph, const PruneOptions& options);

// Sets weights[i] of the blocks to prune to 0; weights are those of `found`, one after the other.
// One block of each layer stays. Ties go to the first
// block. The same on every machine.
void PruneWeights(const Prunables& found, const PruneRows& rows, bool global,
                  std::span<const std::span<float>> weights);

struct PrunedLayer {
  std::string node, weight;
  int64_t weights = 0, zeros_before = 0, zeros = 0;
  int64_t blocks = 0, kept = 0;  // blocks that are not all zero
  int64_t nonzero() const { return weights - zeros; }
  double sparsity() const { return weights == 0 ? 0 : double(zeros) / double(weights); }
};
struct PruneReport {
  std::vector<PrunedLayer> layers;
  std::vector<std::pair<std::string, std::string>> left;
  int64_t weights = 0, zeros = 0;  // of the layers
};

// Prunes in place. Errors: those of CheckPruneOptions and FindPrunables; kUnsupported where no
// weight fits.
Result<PruneReport> PruneGraph(Graph& graph, const PruneOptions& options);

}  // namespace evoq
