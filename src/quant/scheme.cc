#include "base/rows.h"
#include "base/text.h"
#include "quant/quant.h"

namespace evoq {

#define EVOQ_ROW_TYPE QuantScheme
#define EVOQ_ROW_FILE "quant/schemes.inc"
#include "base/rows.inl.h"

std::span<const QuantScheme* const> AllSchemes() { return kAllRows; }

std::optional<Reason> KeptByOptions(const Node& node, const QuantizeOptions& options) {
  if (const auto kept = options.keep.find(node.name); kept != options.keep.end())
    return kept->second;
  for (const std::string& pattern : options.exclude) {
    if (GlobMatch(pattern, node.name))
      return Reason{"excluded",
                    fmt::format("the name matches the excluded pattern \"{}\"", pattern)};
  }
  return std::nullopt;
}

const QuantScheme* FindScheme(std::string_view name) { return FindRow(AllSchemes(), name); }

}  // namespace evoq
