#include "workflow/unmatched.h"

#include <algorithm>

#include "base/nearest.h"
#include "base/printable.h"
#include "base/text.h"

namespace evoq {

std::vector<std::string> NodeNames(const Graph& graph) {
  std::vector<std::string> names;
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    names.push_back(node.name);
    for (const auto& body : node.bodies) {
      const std::vector<std::string> inner = NodeNames(*body);
      names.insert(names.end(), inner.begin(), inner.end());
    }
  }
  return names;
}

std::vector<std::string> UnmatchedWarnings(std::string_view option,
                                           std::span<const std::string> patterns,
                                           std::span<const std::string> names) {
  std::vector<std::string> warnings;
  for (const std::string& pattern : patterns) {
    if (std::ranges::any_of(names, [&](const auto& name) { return GlobMatch(pattern, name); }))
      continue;
    const bool glob = pattern.find_first_of("*?") != std::string::npos;
    const std::vector<std::string_view> views(names.begin(), names.end());
    warnings.push_back(FormatPrintable("{} {}: no node of the optimized model has such a name{}",
                                       option, pattern, glob ? "" : NearestHint(pattern, views)));
  }
  return warnings;
}

std::vector<std::string> UnmatchedWarnings(const QuantizeOptions& options,
                                           std::vector<std::string> names, const Reasons& more) {
  for (const auto& [name, reason] : more) names.push_back(name);
  const auto patterns = [](const std::vector<LayerBits>& rules) {
    std::vector<std::string> layers;
    for (const LayerBits& rule : rules) layers.push_back(rule.layers);
    return layers;
  };
  std::vector<std::string> warnings = UnmatchedWarnings("--exclude", options.exclude, names);
  for (const auto& [option, rules] : {std::pair("--weight-bits", &options.weight_bits),
                                      std::pair("--activation-bits", &options.activation_bits)}) {
    std::ranges::move(UnmatchedWarnings(option, patterns(*rules), names),
                      std::back_inserter(warnings));
  }
  return warnings;
}

}  // namespace evoq
