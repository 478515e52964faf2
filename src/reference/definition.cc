#include "reference/definition.h"

#include <algorithm>
#include <utility>

namespace evoq {
namespace {

std::pair<std::string_view, std::string_view> Key(const Definition& d) {
  return {d.domain, d.name};
}

}  // namespace

std::vector<const Definition*> SortedDefinitions(std::span<const Definition* const> rows) {
  std::vector<const Definition*> sorted(rows.begin(), rows.end());
  std::sort(sorted.begin(), sorted.end(),
            [](const Definition* a, const Definition* b) { return Key(*a) < Key(*b); });
  return sorted;
}

const Definition* FindDefinition(std::span<const Definition* const> sorted, const Node& node) {
  const std::pair<std::string_view, std::string_view> key{
      node.domain == "ai.onnx" ? "" : std::string_view(node.domain), node.op};
  const auto it = std::lower_bound(sorted.begin(), sorted.end(), key,
                                   [](const Definition* d, const auto& k) { return Key(*d) < k; });
  return it != sorted.end() && Key(**it) == key ? *it : nullptr;
}

}  // namespace evoq
