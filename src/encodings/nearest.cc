#include "encodings/nearest.h"

#include <algorithm>
#include <numeric>

namespace evoq {
namespace {

constexpr size_t kMaxBytes = 256;

std::string_view End(std::string_view name) {
  return name.size() > kMaxBytes ? name.substr(name.size() - kMaxBytes) : name;
}

size_t Distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row[b.size()];
}

}  // namespace

std::vector<std::string> NearestNames(std::string_view name, std::span<const std::string> names,
                                      size_t count) {
  std::vector<std::pair<size_t, std::string>> near;
  const std::string_view end = End(name);
  for (const std::string& other : names) {
    const std::string_view other_end = End(other);
    const size_t longer = std::max(end.size(), other_end.size()),
                 shorter = std::min(end.size(), other_end.size());
    if (shorter * 2 < longer) continue;
    const size_t distance = Distance(end, other_end);
    if (distance * 2 <= longer) near.emplace_back(distance, other);
  }
  std::sort(near.begin(), near.end());
  std::vector<std::string> nearest;
  for (size_t i = 0; i < std::min(count, near.size()); ++i) nearest.push_back(near[i].second);
  return nearest;
}

}  // namespace evoq
