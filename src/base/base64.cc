#include "base/base64.h"

#include <algorithm>
#include <cstdint>

namespace evoq {
namespace {

constexpr std::string_view kDigits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace

std::string ToBase64(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t at = 0; at < bytes.size(); at += 3) {
    const size_t n = std::min<size_t>(3, bytes.size() - at);
    uint32_t group = 0;
    for (size_t i = 0; i < 3; ++i)
      group = group << 8 | (i < n ? static_cast<uint8_t>(bytes[at + i]) : 0);
    for (size_t i = 0; i < 4; ++i) text += i <= n ? kDigits[group >> (18 - 6 * i) & 63] : '=';
  }
  return text;
}

Result<std::string> FromBase64(std::string_view text) {
  if (text.size() % 4 != 0) return InvalidInput("base64 of {} characters", text.size());
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  for (size_t at = 0; at < text.size(); at += 4) {
    uint32_t group = 0;
    size_t padding = 0;
    for (size_t i = 0; i < 4; ++i) {
      const char c = text[at + i];
      const size_t digit = kDigits.find(c);
      const bool pad = c == '=' && at + 4 == text.size() && i >= 2;
      if ((digit == kDigits.npos && !pad) || (padding > 0 && !pad))
        return InvalidInput("no base64 at character {}", at + i);
      padding += pad;
      group = group << 6 | (pad ? 0 : static_cast<uint32_t>(digit));
    }
    for (size_t i = 0; i + padding < 3; ++i) bytes += static_cast<char>(group >> (16 - 8 * i));
  }
  return bytes;
}

}  // namespace evoq
