#include "base/text.h"

namespace evoq {

bool GlobMatch(std::string_view pattern, std::string_view name) {
  // Greedy with one backtrack point: linear in practice, and never exponential.
  size_t p = 0, n = 0, star = std::string_view::npos, mark = 0;
  while (n < name.size()) {
    if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n]) && pattern[p] != '*') {
      ++p, ++n;
    } else if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      mark = n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++mark;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

Utf8Character Utf8At(std::string_view text, size_t at) {
  const uint32_t lead = static_cast<unsigned char>(text[at]);
  if (lead < 0x80) return {lead, 1, true};
  const size_t bytes = lead < 0xc0 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf8 ? 4 : 0;
  if (bytes == 0 || bytes > text.size() - at) return {lead, 1, false};
  uint32_t code = lead & (0x7fu >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    const uint32_t next = static_cast<unsigned char>(text[at + i]);
    if ((next & 0xc0) != 0x80) return {lead, 1, false};
    code = (code << 6) | (next & 0x3f);
  }
  return {code, bytes, true};
}

std::string HumanBytes(int64_t bytes) {
  if (bytes < 1000) return fmt::format("{} B", bytes);
  if (bytes < 1000000) return fmt::format("{:.1f} kB", bytes / 1e3);
  if (bytes < 1000000000) return fmt::format("{:.2f} MB", bytes / 1e6);
  return fmt::format("{:.2f} GB", bytes / 1e9);
}

}  // namespace evoq
