#include "tensor/attrs.h"

#include "base/text.h"

namespace evoq {
namespace {

struct Printer {
  std::string operator()(int64_t v) const { return std::to_string(v); }
  std::string operator()(float v) const { return fmt::format("{}", v); }
  std::string operator()(const std::string& v) const { return fmt::format("\"{}\"", v); }
  std::string operator()(const Tensor& v) const { return v.type().ToString(); }
  template <typename T>
  std::string operator()(const std::vector<T>& v) const {
    return Bracketed(std::span<const T>(v));
  }
};

struct Equal {
  bool operator()(const Tensor& a, const Tensor& b) const { return BitEqual(a, b); }
  template <typename A, typename B>
  bool operator()(const A& a, const B& b) const {
    if constexpr (std::is_same_v<A, B>) return a == b;
    return false;
  }
};

}  // namespace

std::string Attrs::ToString() const {
  if (map_.empty()) return "";
  std::vector<std::string> parts;
  for (const auto& [name, value] : map_)
    parts.push_back(fmt::format("{}={}", name, std::visit(Printer{}, value)));
  return fmt::format("{{{}}}", fmt::join(parts, ", "));
}

bool Attrs::operator==(const Attrs& other) const {
  if (map_.size() != other.map_.size()) return false;
  for (auto a = map_.begin(), b = other.map_.begin(); a != map_.end(); ++a, ++b) {
    if (a->first != b->first || !std::visit(Equal{}, a->second, b->second)) return false;
  }
  return true;
}

}  // namespace evoq
