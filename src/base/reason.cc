#include "base/reason.h"

namespace evoq {
namespace {

constexpr std::string_view kSeparator = ": ";

}  // namespace

std::string Reason::ToString() const {
  return sentence.empty() ? code : code + std::string(kSeparator) + sentence;
}

Reason Reason::Parse(std::string_view text) {
  const size_t end = text.find(kSeparator);
  if (end == std::string_view::npos) return {std::string(text), ""};
  return {std::string(text.substr(0, end)), std::string(text.substr(end + kSeparator.size()))};
}

}  // namespace evoq
