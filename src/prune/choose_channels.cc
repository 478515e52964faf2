#include "prune/choose_channels.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "base/math.h"

namespace evoq {
namespace {

// Adds what the slices of one constant say of their groups: to `sum`, and 1 to `count`.
void AddScores(const ChannelSlices& slices, const Shape& shape, const ChannelNumbers& numbers,
               const PruneScore& row, std::vector<double>& sum, std::vector<int64_t>& count) {
  const std::vector<int32_t>& groups = slices.along.groups;
  const size_t indices = groups.size();
  int64_t inner = 1;
  for (int i = slices.along.axis + 1; i < shape.rank(); ++i) inner *= shape[i].value;
  std::vector<int32_t> block_of(numbers.weights.size());
  for (size_t i = 0; i < block_of.size(); ++i)
    block_of[i] = static_cast<int32_t>(i / static_cast<size_t>(inner) % indices);
  const std::vector<int64_t> sizes(indices, static_cast<int64_t>(block_of.size() / indices));
  std::vector<double> scores(indices);
  row.score({numbers.weights, block_of, sizes, numbers.observed}, scores);
  double mean = 0;
  for (const double score : scores) mean += score;
  mean /= static_cast<double>(indices);
  std::map<int32_t, std::pair<double, int64_t>> of_group;  // sum and number of its indices
  for (size_t i = 0; i < indices; ++i) {
    double score = scores[i];
    if (row.scale == ScoreScale::kLoss) score *= static_cast<double>(sizes[i]);
    if (row.scale == ScoreScale::kLayer) score = mean > 0 ? score / mean : 0;
    of_group[groups[i]].first += score;
    ++of_group[groups[i]].second;
  }
  for (const auto& [group, of] : of_group) {
    const auto g = static_cast<size_t>(group);
    sum[g] += row.scale == ScoreScale::kLoss ? of.first : of.first / static_cast<double>(of.second);
    ++count[g];
  }
}

struct Ranked {
  double score;
  int32_t group;
  bool operator<(const Ranked& other) const {
    return std::tie(score, group) < std::tie(other.score, other.group);
  }
};

// Of a bundle: how many more groups have to stay so that one does, and a multiple where it can.
int64_t Missing(int64_t all, int64_t kept, int64_t multiple) {
  const int64_t wanted = std::min(all, RoundUp(std::max<int64_t>(kept, 1), multiple));
  return wanted - kept;
}

// What each group is worth.
std::vector<double> ScoresOf(const Graph& graph, const Channels& channels,
                             const ChannelChoice& choice, const NumbersOf& numbers) {
  const size_t groups = channels.groups.size();
  std::vector<double> scores(groups);
  std::vector<int64_t> count(groups);
  for (const ChannelSlices& slices : channels.slices) {
    if (!slices.scored) continue;
    const ChannelNumbers of = numbers(slices);
    const Shape& shape = graph.value(slices.constant).type.shape;
    if (!of.weights.empty()) AddScores(slices, shape, of, *choice.score, scores, count);
  }
  for (size_t g = 0; g < groups; ++g) {
    if (choice.score->scale != ScoreScale::kLoss && count[g] > 0)
      scores[g] /= static_cast<double>(count[g]);
    if (!choice.removed.empty() && choice.removed[g])
      scores[g] = -std::numeric_limits<double>::infinity();
  }
  return scores;
}

// The best groups of each bundle come back until as many stay as have to.
void KeepSome(const Channels& channels, int64_t multiple, const std::vector<Ranked>& ranked,
              std::vector<bool>& removed) {
  std::map<int32_t, int64_t> all, kept, missing;
  for (size_t g = 0; g < removed.size(); ++g) {
    ++all[channels.groups[g].bundle];
    kept[channels.groups[g].bundle] += removed[g] ? 0 : 1;
  }
  for (const auto& [bundle, of] : all) missing[bundle] = Missing(of, kept[bundle], multiple);
  for (auto r = ranked.rbegin(); r != ranked.rend(); ++r) {
    const auto g = static_cast<size_t>(r->group);
    int64_t& wanted = missing[channels.groups[g].bundle];
    if (!removed[g] || wanted == 0) continue;
    removed[g] = false;
    --wanted;
  }
}

// No value and no constant loses all of its channels: a part of a Split may have some of a bundle.
void KeepOneOfEach(const Channels& channels, std::span<const double> scores,
                   std::vector<bool>& removed) {
  const auto keep_one = [&](const std::vector<int32_t>& groups) {
    int32_t best = -1;
    for (const int32_t g : groups) {
      if (!removed[static_cast<size_t>(g)]) return;
      if (best < 0 || scores[static_cast<size_t>(g)] > scores[static_cast<size_t>(best)]) best = g;
    }
    if (best >= 0) removed[static_cast<size_t>(best)] = false;
  };
  for (const ChannelSlices& slices : channels.slices) keep_one(slices.along.groups);
  for (const auto& [value, along] : channels.values) keep_one(along.groups);
}

}  // namespace

std::vector<bool> ChooseChannels(const Graph& graph, const Channels& channels,
                                 const ChannelChoice& choice, const NumbersOf& numbers) {
  const std::vector<double> scores = ScoresOf(graph, channels, choice, numbers);
  std::map<int32_t, std::vector<Ranked>> lists;  // those that may go: of each bundle, or all
  for (size_t g = 0; g < scores.size(); ++g) {
    const ChannelGroup& group = channels.groups[g];
    if (!group.stays.empty() || (!choice.may_go.empty() && !choice.may_go[g])) continue;
    lists[choice.global ? 0 : group.bundle].push_back({scores[g], static_cast<int32_t>(g)});
  }
  std::vector<bool> removed(scores.size());
  for (auto& [list, ranked] : lists) {
    std::sort(ranked.begin(), ranked.end());
    const auto gone =
        static_cast<size_t>(std::lround(choice.share * static_cast<double>(ranked.size())));
    for (size_t i = 0; i < gone; ++i) removed[static_cast<size_t>(ranked[i].group)] = true;
  }
  for (const auto& [list, ranked] : lists) KeepSome(channels, choice.multiple, ranked, removed);
  KeepOneOfEach(channels, scores, removed);
  return removed;
}

}  // namespace evoq
