// What of a file a message shows: its names, lines and lists may be as long as the file.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <string_view>

#include "base/printable.h"
#include "base/text.h"

namespace evoq {

// At most its first 100 bytes, then "...".
inline std::string Shorten(std::string_view text) {
  constexpr size_t kMost = 100;
  return text.size() <= kMost ? std::string(text) : std::string(text.substr(0, kMost)) + "...";
}

// As Bracketed, of at most the first 16: "[1, 2, ... 243 in all]".
template <typename T>
std::string BracketedBriefly(std::span<const T> items) {
  constexpr size_t kMost = 16;
  if (items.size() <= kMost) return Bracketed(items);
  std::string text = Bracketed(items.first(kMost));
  text.pop_back();
  return fmt::format("{}, ... {} in all]", text, items.size());
}

// Where the character of UTF-8 at `at` begins: at most 3 bytes before it, whatever the bytes are.
inline size_t CharacterStart(std::string_view text, size_t at) {
  const size_t first = at - std::min<size_t>(at, 3);
  while (at > first && at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) {
    --at;
  }
  return at;
}

// An error's message as its reader gets it: Printable, and of more than 4,000 bytes the first 3,000
// (where it is, what was found), " ... N bytes ... " and the last 500 (what was expected), cut
// between characters: a node's name may be as long as its model.
inline std::string PrintableMessage(std::string_view message) {
  constexpr size_t kMost = 4000, kFirst = 3000, kLast = 500;
  if (message.size() <= kMost) return Printable(message);
  const size_t begin = CharacterStart(message, kFirst);
  const size_t end = CharacterStart(message, message.size() - kLast);
  return fmt::format("{} ... {} bytes ... {}", Printable(message.substr(0, begin)), end - begin,
                     Printable(message.substr(end)));
}

}  // namespace evoq
