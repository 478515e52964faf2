#include "base/nearest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <vector>

namespace evoq {
namespace {

// Longer names are compared by their beginnings: they may come from a file.
constexpr size_t kMostCharacters = 64;

size_t Edits(std::string_view a, std::string_view b) {
  a = a.substr(0, kMostCharacters);
  b = b.substr(0, kMostCharacters);
  // Rows i - 2, i - 1 and i of the table of edits from a's first i to b's first j characters.
  std::vector<size_t> older(b.size() + 1), old(b.size() + 1), now(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) now[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    older.swap(old);
    old.swap(now);
    now[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t differs = a[i - 1] == b[j - 1] ? 0 : 1;
      now[j] = std::min({old[j] + 1, now[j - 1] + 1, old[j - 1] + differs});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        now[j] = std::min(now[j], older[j - 2] + 1);
    }
  }
  return now[b.size()];
}

// Of the names that `name` begins with the longest, of at least four letters.
std::string_view LongestBeginning(std::string_view name, std::span<const std::string_view> names) {
  constexpr size_t kLeast = 4;
  std::string_view best;
  for (const std::string_view candidate : names) {
    const size_t hyphens = std::min(candidate.find_first_not_of('-'), candidate.size());
    if (candidate.size() - hyphens >= kLeast && candidate.size() > best.size() &&
        name.starts_with(candidate))
      best = candidate;
  }
  return best;
}

}  // namespace

std::string_view Nearest(std::string_view name, std::span<const std::string_view> names) {
  std::string_view best;
  size_t fewest = std::numeric_limits<size_t>::max();
  for (const std::string_view candidate : names) {
    const size_t edits = Edits(name, candidate);
    if (edits >= fewest) continue;
    fewest = edits;
    best = candidate;
  }
  return best;
}

std::string NearestHint(std::string_view name, std::span<const std::string_view> names) {
  std::vector<std::string_view> longer;
  for (const std::string_view candidate : names) {
    if (!name.empty() && candidate.starts_with(std::string(name) + "-"))
      longer.push_back(candidate);
  }
  if (longer.size() > 1) return fmt::format("; the nearest are {}", fmt::join(longer, ", "));
  if (longer.size() == 1) return fmt::format("; the nearest is {}", longer[0]);
  const std::string_view nearest = Nearest(name, names);
  // The hyphens of options are no part of their names.
  const size_t hyphens = std::min(nearest.find_first_not_of('-'), nearest.size());
  if (!nearest.empty() && 2 * Edits(name, nearest) <= nearest.size() - hyphens)
    return "; the nearest is " + std::string(nearest);
  const std::string_view begins = LongestBeginning(name, names);
  return begins.empty() ? "" : "; the nearest is " + std::string(begins);
}

}  // namespace evoq
