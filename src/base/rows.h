// Lists of rows. A row is a constant struct in its own file; a list file (NAME.inc) names it by one
// line, EVOQ_ROW(symbol), and base/rows.inl.h makes the array of all.
#pragma once

#include <span>
#include <string_view>

namespace evoq {

// The row of this name, nullptr where there is none.
template <typename Row>
const Row* FindRow(std::span<const Row* const> rows, std::string_view name) {
  for (const Row* row : rows) {
    if (name == row->name) return row;
  }
  return nullptr;
}

}  // namespace evoq
