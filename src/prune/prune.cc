#include "prune/prune.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "base/math.h"
#include "base/rows.h"
#include "base/text.h"
#include "ops/op.h"
#include "ops/roles.h"
#include "prune/prune_channels.h"

namespace evoq {
namespace {

template <typename Row>
Result<const Row*> RowOf(const std::string& option, std::span<const Row* const> rows,
                         const std::string& name) {
  if (const Row* row = FindRow(rows, name)) return row;
  std::string names;
  for (const Row* row : rows) names += (names.empty() ? "" : ", ") + std::string(row->name);
  return Fail(ErrorCode::kUsage, "{} {}: expected one of {}", option, name, names);
}

// What the user calls it.
std::string PatternOption(const PruneOptions& options) {
  return options.trains ? "--prune" : "--pattern";
}

// Why the pattern does not fit this constant as the weight of the node; "" where it does.
std::string WhyNot(const Node& node, const Tensor& weight, const PrunePattern& pattern) {
  if (weight.dtype() != DType::kFloat32 || !weight.layout().empty())
    return fmt::format("its weight is {}, expected float32", weight.type().ToString());
  if (weight.shape().rank() < 2 || weight.elements() == 0)
    return fmt::format("its weight is {}, expected two axes or more", weight.type().ToString());
  if (weight.elements() > INT32_MAX) return "its weight has more than 2^31 elements";
  const std::vector<int64_t> sizes = weight.shape().sizes();
  const WeightIndex index(node, sizes);
  if (pattern.columns == 1 && pattern.depth == 1 && pattern.of == 0) return "";
  const int64_t depth = std::max(pattern.depth, pattern.of);
  if (index.groups() != 1)
    return fmt::format("it has {} groups, {} needs one", index.groups(), pattern.name);
  if (index.inputs() < depth || index.outputs() < pattern.columns)
    return fmt::format("{} x {} channels, {} needs {} x {}", index.outputs(), index.inputs(),
                       pattern.name, pattern.columns, depth);
  return "";
}

// The blocks of one weight, numbered as output channels, taps and input channels rise.
PrunableWeight BlocksOf(const Node& node, const Value& value, ValueId id,
                        const PrunePattern& pattern) {
  PrunableWeight out;
  out.node = node.name;
  out.weight = value.name;
  out.value = id;
  const Tensor& weight = value.constant;
  const std::vector<int64_t> sizes = weight.shape().sizes();
  const WeightIndex index(node, sizes);
  const int64_t count = weight.elements(), taps = index.taps(), channels = index.inputs();
  const int64_t along = CeilDiv(channels, pattern.depth);
  const bool single = pattern.columns == 1 && pattern.depth == 1;
  const int64_t lines = CeilDiv(index.outputs(), pattern.columns);
  const int64_t blocks = single ? count : lines * taps * along;
  out.block_of.resize(static_cast<size_t>(count));
  out.sizes.assign(static_cast<size_t>(blocks), 0);
  const int64_t groups_along = pattern.of > 0 ? CeilDiv(along, pattern.of) : 0;
  if (pattern.of > 0) out.group_of.resize(static_cast<size_t>(blocks));
  for (int64_t i = 0; i < count; ++i) {
    int64_t block = i;
    if (!single || pattern.of > 0) {
      const int64_t m = index.OutputOf(i), c = index.InputOf(i), tap = i % taps;
      const int64_t line = m / pattern.columns * taps + tap;
      block = line * along + c / pattern.depth;
      if (pattern.of > 0)
        out.group_of[static_cast<size_t>(block)] =
            static_cast<int32_t>(line * groups_along + c / pattern.depth / pattern.of);
    }
    out.block_of[static_cast<size_t>(i)] = static_cast<int32_t>(block);
    ++out.sizes[static_cast<size_t>(block)];
  }
  return out;
}

// Blocks of all layers from the least to the most worth.
struct Ranked {
  double score;
  size_t layer, block;
};
void Sort(std::vector<Ranked>& ranked) {
  std::sort(ranked.begin(), ranked.end(), [](const Ranked& a, const Ranked& b) {
    return std::tie(a.score, a.layer, a.block) < std::tie(b.score, b.layer, b.block);
  });
}

using Pruned = std::vector<std::vector<bool>>;  // by layer, by block

// Prunes the least blocks of `ranked` until they have a share of its weights; one block of each
// layer stays.
void PruneLeast(std::vector<Ranked> ranked, const Prunables& found, double share, Pruned& pruned) {
  Sort(ranked);
  double weights = 0, zeros = 0;
  std::map<size_t, size_t> last;  // of each layer, the block that ranks highest
  for (const Ranked& r : ranked) {
    weights += static_cast<double>(found.weights[r.layer].sizes[r.block]);
    last[r.layer] = r.block;
  }
  for (const Ranked& r : ranked) {
    const auto size = static_cast<double>(found.weights[r.layer].sizes[r.block]);
    if (zeros + size / 2 > share * weights) break;
    if (last[r.layer] == r.block) continue;
    pruned[r.layer][r.block] = true;
    zeros += size;
  }
}

// Of each group all but the `keep` blocks of the highest scores.
void PruneGroups(const PrunableWeight& weight, std::span<const double> scores, int64_t keep,
                 std::vector<bool>& pruned) {
  std::map<int32_t, std::vector<Ranked>> groups;
  for (size_t b = 0; b < scores.size(); ++b)
    groups[weight.group_of[b]].push_back({scores[b], 0, b});
  for (auto& [group, blocks] : groups) {
    Sort(blocks);
    for (size_t i = 0; i + static_cast<size_t>(keep) < blocks.size(); ++i)
      pruned[blocks[i].block] = true;
  }
}

// Blocks that are 0 have the lowest score.
void ZerosFirst(const PrunableWeight& weight, std::span<const float> weights,
                std::span<double> scores) {
  std::vector<bool> used(scores.size());
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] != 0) used[static_cast<size_t>(weight.block_of[i])] = true;
  }
  for (size_t b = 0; b < scores.size(); ++b) {
    if (!used[b]) scores[b] = -std::numeric_limits<double>::infinity();
  }
}

int64_t Zeros(std::span<const float> weights) {
  return std::count(weights.begin(), weights.end(), 0.0f);
}

}  // namespace

bool KeepsWeights(const Node& node) { return HasRealWeights(node) && !IsWeighted(node); }

Result<PruneRows> CheckPruneOptions(const PruneOptions& options) {
  PruneRows rows = {};
  const std::string dashes = options.trains ? "--prune-" : "--";
  EVOQ_ASSIGN(rows.pattern, RowOf(PatternOption(options), AllPrunePatterns(), options.pattern));
  EVOQ_ASSIGN(rows.score, RowOf(dashes + "score", AllPruneScores(), options.score));
  if (rows.score->observe != nullptr && !options.trains)
    return Fail(ErrorCode::kUsage,
                "--score {}: its gradients come from training: evoq train --prune {} "
                "--prune-score {}",
                options.score, options.pattern, options.score);
  if (options.multiple < 1 || (options.multiple > 1 && !rows.pattern->channels))
    return Fail(ErrorCode::kUsage, "{}multiple {}: expected {}", dashes, options.multiple,
                rows.pattern->channels ? "a number of channels from 1 on"
                                       : PatternOption(options) + " channel");
  const PrunePattern& pattern = *rows.pattern;
  const double own =
      pattern.of > 0 ? 1 - double(pattern.keep) / double(pattern.of) : pattern.sparsity;
  rows.sparsity = options.sparsity.value_or(own);
  if (!(rows.sparsity > 0 && rows.sparsity < 1))
    return Fail(ErrorCode::kUsage, "--sparsity {}: expected a share between 0 and 1",
                rows.sparsity);
  if (pattern.of > 0 && rows.sparsity != own)
    return Fail(ErrorCode::kUsage, "--sparsity {}: expected {}, the share of {}", rows.sparsity,
                own, pattern.name);
  if (options.scope != "layer" && options.scope != "global")
    return Fail(ErrorCode::kUsage, "{}scope {}: expected layer or global", dashes, options.scope);
  return rows;
}

Result<Prunables> FindPrunables(const Graph& graph, const PruneOptions& options) {
  EVOQ_ASSIGN(const PruneRows rows, CheckPruneOptions(options));
  Prunables found;
  std::set<std::string> matched;
  std::set<ValueId> seen;
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (KeepsWeights(node)) found.left.emplace_back(node.name, kRecurrentStays);
    if (!IsWeighted(node)) continue;
    bool wanted = options.layers.empty();
    for (const std::string& pattern : options.layers) {
      if (!GlobMatch(pattern, node.name)) continue;
      wanted = true;
      matched.insert(pattern);
    }
    const int input = InputWith(*FindOp(node), Role::kWeight);
    if (input < 0 || static_cast<size_t>(input) >= node.inputs.size()) continue;
    const ValueId value = node.inputs[static_cast<size_t>(input)];
    if (!graph.value(value).is_constant()) {
      found.left.emplace_back(node.name, "its weight is computed");
      continue;
    }
    const std::string why = !wanted ? "no --layers pattern names it"
                            : seen.contains(value)
                                ? "its weight is pruned with another node"
                                : WhyNot(node, graph.value(value).constant, *rows.pattern);
    if (!why.empty()) {
      found.left.emplace_back(node.name, why);
      continue;
    }
    seen.insert(value);
    found.weights.push_back(BlocksOf(node, graph.value(value), value, *rows.pattern));
  }
  for (const std::string& pattern : options.layers) {
    if (!matched.contains(pattern))
      return Fail(ErrorCode::kUsage, "--layers {}: no product has such a name", pattern);
  }
  return found;
}

void PruneWeights(const Prunables& found, const PruneRows& rows, bool global,
                  std::span<const std::span<float>> weights,
                  std::span<const std::span<const float>> observed) {
  Pruned pruned;
  std::vector<Ranked> all;
  for (size_t layer = 0; layer < found.weights.size(); ++layer) {
    const PrunableWeight& weight = found.weights[layer];
    std::vector<double> scores(weight.sizes.size());
    rows.score->score({weights[layer], weight.block_of, weight.sizes,
                       observed.empty() ? std::span<const float>() : observed[layer]},
                      scores);
    ZerosFirst(weight, weights[layer], scores);
    pruned.emplace_back(scores.size(), false);
    if (rows.pattern->of > 0) {
      PruneGroups(weight, scores, rows.pattern->keep, pruned.back());
      continue;
    }
    for (size_t b = 0; b < scores.size(); ++b) all.push_back({scores[b], layer, b});
    if (global) continue;
    PruneLeast(std::exchange(all, {}), found, rows.sparsity, pruned);
  }
  if (!all.empty()) PruneLeast(std::move(all), found, rows.sparsity, pruned);
  for (size_t layer = 0; layer < found.weights.size(); ++layer) {
    const std::vector<int32_t>& block_of = found.weights[layer].block_of;
    for (size_t i = 0; i < block_of.size(); ++i) {
      if (pruned[layer][static_cast<size_t>(block_of[i])]) weights[layer][i] = 0;
    }
  }
}

Result<PruneReport> PruneGraph(Graph& graph, const PruneOptions& options) {
  EVOQ_ASSIGN(const PruneRows rows, CheckPruneOptions(options));
  if (rows.pattern->channels) return PruneChannels(graph, options, rows);
  EVOQ_ASSIGN(Prunables found, FindPrunables(graph, options));
  if (found.weights.empty())
    return Unsupported("{} {}: no product fits{}{}", PatternOption(options), options.pattern,
                       found.left.empty() ? "" : ": ",
                       found.left.empty() ? "" : found.left[0].first + ": " + found.left[0].second);
  PruneReport report;
  std::vector<Tensor> tensors;
  std::vector<std::span<float>> weights;
  for (const PrunableWeight& weight : found.weights) {
    tensors.push_back(graph.value(weight.value).constant.Clone());
    weights.emplace_back(tensors.back().mutable_data<float>(), weight.block_of.size());
    report.layers.push_back({.node = weight.node,
                             .weight = weight.weight,
                             .weights = static_cast<int64_t>(weight.block_of.size()),
                             .zeros_before = Zeros(weights.back()),
                             .blocks = static_cast<int64_t>(weight.sizes.size())});
  }
  PruneWeights(found, rows, options.scope == "global", weights);
  for (size_t layer = 0; layer < tensors.size(); ++layer) {
    PrunedLayer& to = report.layers[layer];
    const PrunableWeight& weight = found.weights[layer];
    to.zeros = Zeros(weights[layer]);
    std::vector<bool> used(weight.sizes.size());
    for (size_t i = 0; i < weight.block_of.size(); ++i) {
      if (weights[layer][i] != 0) used[static_cast<size_t>(weight.block_of[i])] = true;
    }
    to.kept = std::count(used.begin(), used.end(), true);
    report.weights += to.weights;
    report.zeros += to.zeros;
    graph.SetConstant(weight.value, std::move(tensors[layer]));
  }
  report.left = std::move(found.left);
  return report;
}

}  // namespace evoq
