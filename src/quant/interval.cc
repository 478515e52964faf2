#include "quant/interval.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace evoq {

double JackknifeError(std::span<const double> without) {
  // Student's t, 97.5%, of 1 to 7 degrees of freedom.
  static constexpr double kStudent[] = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365};
  static_assert(std::size(kStudent) == kIntervalGroups - 1);
  const size_t groups = without.size();
  if (groups < 2 || groups > kIntervalGroups) return -1;
  const auto count = static_cast<double>(groups);
  const double mean = std::accumulate(without.begin(), without.end(), 0.0) / count;
  double squares = 0;
  for (double x : without) squares += (x - mean) * (x - mean);
  return kStudent[groups - 2] * std::sqrt((count - 1) / count * squares);
}

std::vector<int> GroupsByContent(std::span<const uint64_t> hashes) {
  std::vector<size_t> order(hashes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return hashes[a] < hashes[b]; });
  std::vector<int> groups(hashes.size());
  for (size_t rank = 0; rank < order.size(); ++rank)
    groups[order[rank]] = static_cast<int>(rank % kIntervalGroups);
  return groups;
}

void Known::Add(const Range& range) {
  const double width = static_cast<double>(range.max) - range.min;
  if (!(width > 0) || range.min_error < 0) return;
  ++values;
  well += std::max(range.min_error, range.max_error) <= kEnoughShare * width;
}

std::string Known::Told(int64_t samples, bool stopped) const {
  const std::string found = fmt::format(
      "the ranges of {} of {} activations are known to {:g}% of their width (95% confidence)", well,
      values, 100 * kEnoughShare);
  if (stopped || enough()) return fmt::format("{} samples were enough: {}", samples, found);
  return fmt::format("all {} samples were used, and more would help: {}, expected {:g}%", samples,
                     found, 100 * kEnoughValues);
}

}  // namespace evoq
