#include "base/text.h"
#include "quant/quant.h"

namespace evoq {

#define EVOQ_METHOD(symbol) extern const QuantMethod symbol;
#include "quant/methods.inc"
#undef EVOQ_METHOD

std::span<const QuantMethod* const> AllMethods() {
  static constexpr const QuantMethod* kAll[] = {
#define EVOQ_METHOD(symbol) &symbol,
#include "quant/methods.inc"
#undef EVOQ_METHOD
  };
  return kAll;
}

std::optional<std::string> KeptByOptions(const Node& node, const QuantizeOptions& options) {
  if (const auto kept = options.keep.find(node.name); kept != options.keep.end())
    return kept->second;
  for (const std::string& pattern : options.exclude) {
    if (GlobMatch(pattern, node.name))
      return fmt::format("excluded: the name matches the excluded pattern \"{}\"", pattern);
  }
  return std::nullopt;
}

const QuantMethod* FindMethod(std::string_view name) {
  for (const QuantMethod* method : AllMethods()) {
    if (name == method->name) return method;
  }
  return nullptr;
}

}  // namespace evoq
