#include "base/printable.h"

#include "base/text.h"

namespace evoq {
namespace {

// Whether the bytes that Utf8At joined are the one form that Unicode (table 3-7) gives this code
// point.
bool IsWellFormed(const Utf8Character& c) {
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  return c.valid && c.code >= kLeast[c.bytes] && c.code <= 0x10ffff &&
         !(c.code >= 0xd800 && c.code <= 0xdfff);
}

bool ActsOnText(uint32_t code) {
  struct Span {
    uint32_t first, last;
  };
  constexpr Span kSpans[] = {{0x00, 0x1f},     {0x7f, 0x9f},     {0x61c, 0x61c},
                             {0x200b, 0x200f}, {0x2028, 0x202e}, {0x2060, 0x206f},
                             {0xfeff, 0xfeff}, {0xfff9, 0xfffb}, {0xe0000, 0xe007f}};
  for (const Span& span : kSpans) {
    if (code >= span.first && code <= span.last) return true;
  }
  return false;
}

void AppendEscaped(uint32_t code, std::string& out) {
  if (code == '\n') {
    out += "\\n";
  } else if (code == '\r') {
    out += "\\r";
  } else if (code == '\t') {
    out += "\\t";
  } else {
    out += fmt::format("\\u{:04x}", code);
  }
}

std::string Escaped(std::string_view text, bool lines) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const Utf8Character c = Utf8At(text, at);
    if (!IsWellFormed(c)) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[at]));
      ++at;
      continue;
    }
    const bool stays = !ActsOnText(c.code) || (lines && (c.code == '\n' || c.code == '\t'));
    if (stays) {
      out += text.substr(at, c.bytes);
    } else {
      AppendEscaped(c.code, out);
    }
    at += c.bytes;
  }
  return out;
}

}  // namespace

std::string Printable(std::string_view text) { return Escaped(text, false); }
std::string PrintableLines(std::string_view text) { return Escaped(text, true); }

}  // namespace evoq
