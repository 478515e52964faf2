// Rows that describe one operator each, found by its domain and name.
#pragma once

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace evoq {

// What a row is sorted by.
template <typename Row>
std::pair<std::string_view, std::string_view> OpKey(const Row& row) {
  return {row.domain, row.name};
}

// Sorts rows for FindByOp.
template <typename Row>
std::vector<const Row*> SortedByOp(std::span<const Row* const> rows) {
  std::vector<const Row*> sorted(rows.begin(), rows.end());
  std::sort(sorted.begin(), sorted.end(),
            [](const Row* a, const Row* b) { return OpKey(*a) < OpKey(*b); });
  return sorted;
}

// The row of an operator; "ai.onnx" is ONNX's own domain, "". nullptr where there is none.
template <typename Row>
const Row* FindByOp(std::span<const Row* const> sorted, std::string_view op,
                    std::string_view domain) {
  const std::pair key{domain == "ai.onnx" ? std::string_view() : domain, op};
  const auto it = std::lower_bound(sorted.begin(), sorted.end(), key,
                                   [](const Row* row, const auto& k) { return OpKey(*row) < k; });
  return it != sorted.end() && OpKey(**it) == key ? *it : nullptr;
}

}  // namespace evoq
