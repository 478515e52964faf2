#include "quant/sample_groups.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "quant/observe.h"

namespace evoq {
namespace {

using Features = std::vector<float>;  // of a sample, by value

// The logarithm of the range, 0 included, as scales are made of it.
float WidthOf(const Tensor& value) {
  float low = 0, high = 0;
  for (float x : value.values<float>()) {
    low = std::min(low, x);
    high = std::max(high, x);
  }
  return std::log2(std::max(high - low, 1e-30f));
}

double DistanceOf(const Features& a, const std::vector<double>& center) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - center[i]) * (a[i] - center[i]);
  return sum;
}

// Lloyd's algorithm on features in an order of their own, from centers at even steps along it.
class Grouping {
 public:
  Grouping(const std::vector<Features>& sorted, int groups)
      : sorted_(sorted), group_(sorted.size()), centers_(groups) {
    for (int g = 0; g < groups; ++g) {
      const Features& at = sorted[(2 * g + 1) * sorted.size() / (2 * groups)];
      centers_[g].assign(at.begin(), at.end());
    }
  }

  const std::vector<int>& Run() {
    constexpr int kRounds = 100;
    for (int round = 0; round < kRounds && Assign(); ++round) Center();
    return group_;
  }

 private:
  // Whether any sample changed its group.
  bool Assign() {
    bool changed = false;
    for (size_t i = 0; i < sorted_.size(); ++i) {
      int best = 0;
      for (int g = 1; g < static_cast<int>(centers_.size()); ++g) {
        if (DistanceOf(sorted_[i], centers_[g]) < DistanceOf(sorted_[i], centers_[best])) best = g;
      }
      changed |= !assigned_ || group_[i] != best;
      group_[i] = best;
    }
    assigned_ = true;
    return changed;
  }

  void Center() {
    for (size_t g = 0; g < centers_.size(); ++g) {
      std::vector<double> sum(centers_[g].size());
      double count = 0;
      for (size_t i = 0; i < sorted_.size(); ++i) {
        if (group_[i] != static_cast<int>(g)) continue;
        ++count;
        for (size_t f = 0; f < sum.size(); ++f) sum[f] += sorted_[i][f];
      }
      if (count == 0) continue;
      for (size_t f = 0; f < sum.size(); ++f) centers_[g][f] = sum[f] / count;
    }
  }

  const std::vector<Features>& sorted_;
  std::vector<int> group_;
  std::vector<std::vector<double>> centers_;
  bool assigned_ = false;
};

}  // namespace

Result<std::vector<int>> GroupSamples(const Graph& graph, const Ranges& ranges,
                                      const MethodData& data, int groups) {
  std::vector<std::string> names;
  for (const auto& [name, range] : ranges) {
    const ValueId v = graph.FindValue(name);
    if (v.valid() && !graph.value(v).is_constant()) names.push_back(name);
  }
  std::vector<Features> samples;
  const Graph* const graphs[] = {&graph};
  EVOQ_TRY(ObserveValues(graphs, names, data, [&](const ValuesOfGraphs& all) -> Status {
    Features features;
    for (const Tensor& value : all[0]) features.push_back(WidthOf(value));
    samples.push_back(std::move(features));
    return {};
  }));
  const auto refuse = [&](const std::string& what) {
    return Fail(ErrorCode::kUsage, "{}, expected at least as many as the {} scale sets", what,
                groups);
  };
  if (samples.size() < static_cast<size_t>(groups))
    return refuse(fmt::format("{} calibration samples", samples.size()));
  // By their mean widths, the widest first.
  const auto mean = [](const Features& f) { return std::accumulate(f.begin(), f.end(), 0.0); };
  std::vector<size_t> order(samples.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) {
    const double x = mean(samples[a]), y = mean(samples[b]);
    return x != y ? x > y : samples[a] > samples[b];
  });
  std::vector<Features> sorted;
  for (size_t i : order) sorted.push_back(samples[i]);
  const std::vector<int> found = Grouping(sorted, groups).Run();
  std::vector<double> widths(groups);
  std::vector<int> counts(groups), by_width(groups), rank(groups);
  for (size_t i = 0; i < sorted.size(); ++i) {
    widths[found[i]] += mean(sorted[i]);
    ++counts[found[i]];
  }
  const auto filled = std::ranges::count_if(counts, [](int count) { return count > 0; });
  if (filled < groups)
    return refuse(fmt::format("the {} calibration samples fall into {} groups by their ranges",
                              samples.size(), filled));
  std::iota(by_width.begin(), by_width.end(), 0);
  std::ranges::stable_sort(
      by_width, [&](int a, int b) { return widths[a] / counts[a] > widths[b] / counts[b]; });
  for (int g = 0; g < groups; ++g) rank[by_width[g]] = g;
  std::vector<int> groups_of(samples.size());
  for (size_t i = 0; i < order.size(); ++i) groups_of[order[i]] = rank[found[i]];
  return groups_of;
}

}  // namespace evoq
