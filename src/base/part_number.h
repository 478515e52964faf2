// Which part of the samples of a task another process or machine does.
#pragma once

#include <charconv>
#include <cstdint>
#include <string>

#include "base/result.h"

namespace evoq {

// Part number `index`, from 1, of `count`.
struct PartNumber {
  static constexpr int64_t kMost = 65536;
  int64_t index = 1, count = 1;
  // The places [first, last) that it has of `size`, in order: nothing where there are more parts.
  int64_t first(int64_t size) const { return size * (index - 1) / count; }
  int64_t last(int64_t size) const { return size * index / count; }
  bool operator==(const PartNumber&) const = default;
};

// "2/4"; "": the only one. Errors: kUsage, naming --part.
inline Result<PartNumber> ParsePartNumber(const std::string& text) {
  if (text.empty()) return PartNumber();
  PartNumber part;
  const char *const begin = text.data(), *const end = begin + text.size();
  const auto [slash, of_index] = std::from_chars(begin, end, part.index);
  const bool split = of_index == std::errc() && slash != end && *slash == '/';
  const auto [last, of_count] =
      split ? std::from_chars(slash + 1, end, part.count) : std::from_chars_result{begin, {}};
  if (!split || of_count != std::errc() || last != end || part.count < 1 ||
      part.count > PartNumber::kMost || part.index < 1 || part.index > part.count)
    return Fail(ErrorCode::kUsage,
                "--part {}: expected K/N, K from 1 to N and N from 1 to {}, as 2/4", text,
                PartNumber::kMost);
  return part;
}

}  // namespace evoq
