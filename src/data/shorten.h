// Text of a file in a message.
#pragma once

#include <string>
#include <string_view>

namespace evoq {

// At most its first 100 bytes, then "...": a name or a line of a file may be as long as the file.
inline std::string Shorten(std::string_view text) {
  constexpr size_t kMost = 100;
  return text.size() <= kMost ? std::string(text) : std::string(text.substr(0, kMost)) + "...";
}

}  // namespace evoq
