#include "base/rows.h"
#include "base/text.h"
#include "quant/quant.h"

namespace evoq {

#define EVOQ_ROW_TYPE QuantMethod
#define EVOQ_ROW_FILE "quant/methods.inc"
#include "base/rows.inl.h"

std::span<const QuantMethod* const> AllMethods() { return kAllRows; }

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

const QuantMethod* FindMethod(std::string_view name) { return FindRow(AllMethods(), name); }

}  // namespace evoq
