// Pruning of a graph's weights: which blocks become zero.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "prune/channels.h"
#include "prune/pattern.h"
#include "prune/score.h"

namespace evoq {

struct PruneOptions {
  std::string pattern = "block-4x4", score = "magnitude";
  // The share of weights that become zero, of channels those that go; none: the pattern's.
  std::optional<double> sparsity;
  std::string scope = "layer";      // each layer has that share, or "global": all together
  std::vector<std::string> layers;  // glob patterns of nodes; none: all
  int64_t multiple = 1;             // of the channels that stay in a layer, where it has as many
  bool trains = false;              // gradients are at hand, which some scores need
};

// The rows of options that were checked.
struct PruneRows {
  const PrunePattern* pattern;
  const PruneScore* score;
  double sparsity;
};
// Errors: kUsage for names that are none, a sparsity outside 0 .. 1 (exclusive) or another one than
// the pattern's own, a score that needs gradients where there are none, a multiple of channels
// without channels.
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

// RNN, GRU and LSTM, and why nothing of theirs is pruned.
bool KeepsWeights(const Node& node);
inline constexpr char kRecurrentStays[] = "weights of recurrent layers are not pruned";

// The constant float32 weights of the products that the pattern fits, in execution order. Errors:
// kUsage for a glob pattern that matches no product.
Result<Prunables> FindPrunables(const Graph& graph, const PruneOptions& options);

// Sets weights[i] of the blocks to prune to 0; weights are those of `found`, one after the other,
// and so is what was observed of them (PruneScore::observe; empty without it). One block of each
// layer stays. Ties go to the first block; blocks that are 0 go before all others. The same on
// every machine.
void PruneWeights(const Prunables& found, const PruneRows& rows, bool global,
                  std::span<const std::span<float>> weights,
                  std::span<const std::span<const float>> observed = {});

struct PrunedLayer {
  std::string node, weight;
  int64_t weights = 0, zeros_before = 0, zeros = 0;
  int64_t blocks = 0, kept = 0;  // blocks that are not all zero
  int64_t nonzero() const { return weights - zeros; }
  double sparsity() const { return weights == 0 ? 0 : double(zeros) / double(weights); }
};
// A product that lost channels: those that it gives and reads, before and after, and the numbers of
// its weight.
struct PrunedChannels {
  std::string node, weight;
  int64_t outputs_before = 0, outputs = 0, inputs_before = 0, inputs = 0;
  int64_t weights_before = 0, weights = 0;
};
struct PruneReport {
  std::vector<PrunedLayer> layers;
  std::vector<std::pair<std::string, std::string>> left;
  int64_t weights = 0, zeros = 0;  // of the layers
  // Of whole channels: the model's products, and what the model needs.
  std::vector<PrunedChannels> channels;
  int64_t bytes_before = 0, bytes = 0;       // of all float32 constants
  std::optional<int64_t> macs_before, macs;  // of a sample, where sizes are known
};

// What a graph whose channels were pruned says of itself, as metadata: the bytes of its float32
// constants before it was pruned.
inline constexpr char kUnprunedBytes[] = "evoq.unpruned_weight_bytes";

// The groups whose products all have a name that a pattern of `layers` matches, as flags; with no
// patterns all. Errors: kUsage for a pattern that matches no product.
Result<std::vector<bool>> NamedChannels(const Graph& graph, const Channels& channels,
                                        const std::vector<std::string>& layers);
// Removes these groups (one flag each), and says what that was. Errors: those of RemoveChannels.
Result<PruneReport> RemoveAndReport(Graph& graph, const Channels& channels,
                                    const std::vector<bool>& removed);

// Prunes in place. Errors: those of CheckPruneOptions and FindPrunables; kUnsupported where no
// weight fits, or no channel can go.
Result<PruneReport> PruneGraph(Graph& graph, const PruneOptions& options);

}  // namespace evoq
