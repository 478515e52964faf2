// Text helpers shared by messages and dumps.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace evoq {

// "[1, 3, 224, 224]".
template <typename T>
std::string Bracketed(std::span<const T> items) {
  return fmt::format("[{}]", fmt::join(items, ", "));
}

// Shell-style match of the whole name: '*' any run, '?' any character. Used by --exclude and
// --disable.
bool GlobMatch(std::string_view pattern, std::string_view name);

// The UTF-8 character at `at`, which is in the text: its code point and its bytes, 1 to 4. A byte
// that begins none is a character of its own, invalid, whose code is the byte.
struct Utf8Character {
  uint32_t code = 0;
  size_t bytes = 1;
  bool valid = true;
};
Utf8Character Utf8At(std::string_view text, size_t at);

// 13964179 -> "13.96 MB" (powers of ten), 512 -> "512 B".
std::string HumanBytes(int64_t bytes);

}  // namespace evoq
