// Names that somebody may have meant.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace evoq {

// Of `names`, the one that takes the fewest edits from `name`: inserting, deleting or replacing a
// character, or swapping two neighbours (optimal string alignment). The first of several; "" where
// there are none.
std::string_view Nearest(std::string_view name, std::span<const std::string_view> names);

// The end of a sentence about a name that there is not: "; the nearest is NAME", or "" where none
// comes near: each would take edits for more than half of its characters, the hyphens that it
// begins with aside, and `name` begins with none of four letters. Names that go on behind it with a
// hyphen are the nearest.
std::string NearestHint(std::string_view name, std::span<const std::string_view> names);

// The same of the names of a list's rows (base/rows.h).
template <typename Row>
std::string NearestHint(std::string_view name, std::span<const Row* const> rows) {
  std::vector<std::string_view> names;
  for (const Row* row : rows) names.push_back(row->name);
  return NearestHint(name, names);
}

}  // namespace evoq
