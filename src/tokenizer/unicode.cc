#include "tokenizer/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/check.h"

namespace evoq {
namespace {

utf8proc_category_t CategoryOf(uint32_t code) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code));
}

bool IsAscii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return (c & 0x80) == 0; });
}

// The code of the valid character at `at` and its bytes; 0 bytes: none begins there.
CharacterAt ValidAt(std::string_view text, size_t at) {
  const auto lead = static_cast<unsigned char>(text[at]);
  if (lead < 0x80) return {lead, 1};
  utf8proc_int32_t code = 0;
  const auto left = static_cast<utf8proc_ssize_t>(std::min<size_t>(text.size() - at, 4));
  const utf8proc_ssize_t bytes =
      utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()) + at, left, &code);
  if (bytes <= 0) return {lead, 0};
  return {static_cast<uint32_t>(code), static_cast<size_t>(bytes)};
}

}  // namespace

void AppendUtf8(std::string& out, uint32_t code) {
  std::array<utf8proc_uint8_t, 4> bytes;
  const utf8proc_ssize_t n =
      utf8proc_encode_char(static_cast<utf8proc_int32_t>(code), bytes.data());
  out.append(reinterpret_cast<const char*>(bytes.data()), static_cast<size_t>(n));
}

CharacterAt NextCharacter(std::string_view text, size_t at) {
  const CharacterAt c = ValidAt(text, at);
  return {c.code, std::max<size_t>(c.bytes, 1)};
}

std::string ValidUtf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const CharacterAt c = ValidAt(text, at);
    if (c.bytes == 0) {
      AppendUtf8(out, kReplacement);
      ++at;
    } else {
      out += text.substr(at, c.bytes);
      at += c.bytes;
    }
  }
  return out;
}

size_t UnfinishedBytes(std::string_view text) {
  for (size_t back = 1; back <= std::min<size_t>(text.size(), 3); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xC0) == 0x80) continue;
    const size_t needs = byte >= 0xF0 && byte < 0xF8 ? 4 : byte >= 0xE0 ? 3 : byte >= 0xC2 ? 2 : 1;
    return byte < 0xF8 && needs > back ? back : 0;
  }
  return 0;
}

bool IsSpace(uint32_t code) {
  return (code >= 9 && code <= 13) || code == ' ' || code == 0x85 || code == 0xA0 ||
         code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 ||
         code == 0x202F || code == 0x205F || code == 0x3000;
}

bool IsPunctuation(uint32_t code) {
  if (code < 0x80)
    return (code >= 33 && code <= 47) || (code >= 58 && code <= 64) || (code >= 91 && code <= 96) ||
           (code >= 123 && code <= 126);
  const utf8proc_category_t c = CategoryOf(code);
  return c >= UTF8PROC_CATEGORY_PC && c <= UTF8PROC_CATEGORY_PO;
}

bool IsNumeric(uint32_t code) {
  const utf8proc_category_t c = CategoryOf(code);
  return c >= UTF8PROC_CATEGORY_ND && c <= UTF8PROC_CATEGORY_NO;
}

bool IsMark(uint32_t code) {
  const utf8proc_category_t c = CategoryOf(code);
  return c >= UTF8PROC_CATEGORY_MN && c <= UTF8PROC_CATEGORY_ME;
}

bool IsNonspacingMark(uint32_t code) { return CategoryOf(code) == UTF8PROC_CATEGORY_MN; }

bool IsOther(uint32_t code) {
  const utf8proc_category_t c = CategoryOf(code);
  return c == UTF8PROC_CATEGORY_CN || (c >= UTF8PROC_CATEGORY_CC && c <= UTF8PROC_CATEGORY_CO);
}

bool IsWord(uint32_t code) {
  const utf8proc_category_t c = CategoryOf(code);
  if (c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_NL) return true;  // L, M, Nd, Nl
  if (c == UTF8PROC_CATEGORY_PC || code == 0x200C || code == 0x200D) return true;
  // Symbols that are alphabetic: letters in circles and squares.
  return (code >= 0x24B6 && code <= 0x24E9) || (code >= 0x1F130 && code <= 0x1F149) ||
         (code >= 0x1F150 && code <= 0x1F169) || (code >= 0x1F170 && code <= 0x1F189);
}

std::string Lowercase(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  ForEachCharacter(text, [&](uint32_t code, std::string_view) {
    if (code == 0x130) {  // the one letter whose lower case is two characters
      out += "i\xCC\x87";
      return;
    }
    AppendUtf8(out, static_cast<uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code))));
  });
  return out;
}

std::string Uppercase(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  ForEachCharacter(text, [&](uint32_t code, std::string_view) {
    if (code == 0xDF) {  // sharp s
      out += "SS";
      return;
    }
    AppendUtf8(out, static_cast<uint32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(code))));
  });
  return out;
}

// utf8proc orders marks by swapping neighbours, which is quadratic in a run of them; here each run
// is sorted.
std::string Normalized(std::string_view text, NormalForm form) {
  if (IsAscii(text)) return std::string(text);
  const bool compat = form == NormalForm::kNfkc || form == NormalForm::kNfkd;
  const bool compose = form == NormalForm::kNfc || form == NormalForm::kNfkc;
  const auto decompose = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE |
                                                        (compat ? UTF8PROC_COMPAT : 0));
  std::vector<utf8proc_int32_t> codes;
  codes.reserve(text.size() + 32);
  ForEachCharacter(text, [&](uint32_t code, std::string_view) {
    std::array<utf8proc_int32_t, 32> parts;  // the longest decomposition has 18
    int boundary = 0;
    const utf8proc_ssize_t n = utf8proc_decompose_char(
        static_cast<utf8proc_int32_t>(code), parts.data(), parts.size(), decompose, &boundary);
    EVOQ_CHECK(n >= 0 && n <= static_cast<utf8proc_ssize_t>(parts.size()));
    codes.insert(codes.end(), parts.begin(), parts.begin() + n);
  });
  const auto class_of = [](utf8proc_int32_t code) {
    return code < 0x300 ? uint64_t{0}
                        : static_cast<uint64_t>(utf8proc_get_property(code)->combining_class);
  };
  for (auto begin = codes.begin(); begin != codes.end();) {
    if (class_of(*begin) == 0) {
      ++begin;
      continue;
    }
    const auto end =
        std::find_if(begin, codes.end(), [&](utf8proc_int32_t c) { return class_of(c) == 0; });
    std::vector<std::pair<uint64_t, utf8proc_int32_t>> marks;  // by class, then by place
    for (auto mark = begin; mark != end; ++mark)
      marks.emplace_back((class_of(*mark) << 32) | marks.size(), *mark);
    std::sort(marks.begin(), marks.end());
    for (size_t i = 0; i < marks.size(); ++i) begin[static_cast<ptrdiff_t>(i)] = marks[i].second;
    begin = end;
  }
  if (compose && !codes.empty()) {
    const utf8proc_ssize_t n = utf8proc_normalize_utf32(
        codes.data(), static_cast<utf8proc_ssize_t>(codes.size()),
        static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
    EVOQ_CHECK(n >= 0);
    codes.resize(static_cast<size_t>(n));
  }
  std::string out;
  out.reserve(text.size());
  for (const utf8proc_int32_t code : codes) AppendUtf8(out, static_cast<uint32_t>(code));
  return out;
}

}  // namespace evoq
