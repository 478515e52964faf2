#include "llm/gguf_parts.h"

#include <algorithm>

namespace evoq {
namespace {

constexpr std::string_view kOf = "-of-", kEnd = ".gguf";
constexpr size_t kDigits = 5;
constexpr int64_t kMostParts = 10000;
constexpr char kNumber[] = "split.no", kCount[] = "split.count", kTensors[] = "split.tensors.count";

// A number of five digits; -1 for anything else.
int64_t Number(std::string_view digits) {
  int64_t number = 0;
  for (const char c : digits) {
    if (c < '0' || c > '9') return -1;
    number = 10 * number + (c - '0');
  }
  return number;
}

std::string PartPath(std::string_view stem, int64_t part, int64_t count) {
  return fmt::format("{}-{:05}{}{:05}{}", stem, part, kOf, count, kEnd);
}

Status Merge(const std::string& path, int64_t part, int64_t count, GgufFile& whole) {
  EVOQ_ASSIGN(GgufFile more, ReadGguf(path));
  const int64_t number = more.Int(kNumber).value_or(-1), of = more.Int(kCount).value_or(-1);
  if (number != part || of != count)
    return InvalidInput("{}: {} {} and {} {}, expected {} and {}", path, kNumber, number, kCount,
                        of, part, count);
  for (auto& [name, tensor] : more.tensors) {
    if (!whole.tensors.emplace(name, std::move(tensor)).second)
      return InvalidInput("{}: tensor {} is in another part too", path, name);
  }
  return {};
}

}  // namespace

std::vector<std::string> GgufPartPaths(const std::string& path) {
  constexpr size_t kTail = 1 + kDigits + kOf.size() + kDigits + kEnd.size();
  if (path.size() <= kTail) return {path};
  const std::string_view stem = std::string_view(path).substr(0, path.size() - kTail);
  const std::string_view tail = std::string_view(path).substr(stem.size());
  const int64_t first = Number(tail.substr(1, kDigits)),
                count = Number(tail.substr(1 + kDigits + kOf.size(), kDigits));
  if (first != 1 || count < 1 || count > kMostParts || PartPath(stem, 1, count) != path)
    return {path};
  std::vector<std::string> paths;
  for (int64_t i = 1; i <= count; ++i) paths.push_back(PartPath(stem, i, count));
  return paths;
}

Result<GgufFile> ReadGgufParts(const std::string& path) {
  EVOQ_ASSIGN(GgufFile whole, ReadGguf(path));
  const int64_t count = whole.Int(kCount).value_or(0), number = whole.Int(kNumber).value_or(0);
  if (count <= 1) return whole;
  const std::vector<std::string> paths = GgufPartPaths(path);
  if (number != 0)
    return InvalidInput("{}: part {} of {}, expected the first, -00001-of-{:05}.gguf", path,
                        number + 1, count, count);
  if (static_cast<int64_t>(paths.size()) != count)
    return InvalidInput(
        "{}: the first of {} parts, expected a name that ends in -00001-of-{:05}.gguf", path, count,
        count);
  for (int64_t i = 1; i < count; ++i)
    EVOQ_TRY(Merge(paths[static_cast<size_t>(i)], i, count, whole));
  const auto tensors = static_cast<int64_t>(whole.tensors.size());
  if (const auto wanted = whole.Int(kTensors); wanted && *wanted != tensors)
    return InvalidInput("{}: {} tensors in {} parts, expected {} ({})", path, tensors, count,
                        *wanted, kTensors);
  return whole;
}

}  // namespace evoq
