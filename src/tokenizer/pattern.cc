#include "tokenizer/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>

namespace evoq {
namespace {

constexpr size_t kMaxPatternBytes = 16 << 10;
constexpr uint32_t kMaxHeapKib = 64 << 10;

struct FreeCode {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
using OwnedCode = std::unique_ptr<pcre2_code, FreeCode>;

OwnedCode Compiled(std::string_view regex, int& error, size_t& place) {
  return OwnedCode(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(regex.data()), regex.size(),
                                 PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C,
                                 &error, &place, nullptr));
}

// The class \p{Han} and its like at the beginning of a text, spelled as what Oniguruma takes it
// for: characters of that script, not those that it shares with others (the ideographic full stop).
std::string ScriptClass(std::string_view text) {
  const size_t end = std::min(text.find('}'), text.size() - 1);
  const std::string_view all = text.substr(0, end + 1);
  if (all.size() < 5 || all[2] != '{') return "";
  const size_t name = all[3] == '^' ? 4 : 3;
  std::string script = fmt::format("{}sc:{}", all.substr(0, name), all.substr(name));
  int error = 0;
  size_t place = 0;
  return Compiled(script, error, place) != nullptr ? script : "";
}

// PCRE2's spelling of an Oniguruma expression: the classes that differ are written out.
Result<std::string> Translated(std::string_view regex) {
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < regex.size(); ++i) {
    const char c = regex[i];
    if (c == '\\' && i + 1 < regex.size()) {
      const char next = regex[++i];
      // Of numbers that are no digits, Oniguruma has those that are Latin-1's.
      const std::string_view word =
          "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{B2}\\x{B3}\\x{B9}\\x{BC}-\\x{BE}";
      if (next == 's') {
        out += "\\p{White_Space}";
      } else if (next == 'S') {
        out += "\\P{White_Space}";
      } else if (next == 'w') {
        out += in_class ? std::string(word) : fmt::format("[{}]", word);
      } else if (next == 'W' && !in_class) {
        out += fmt::format("[^{}]", word);
      } else if (next == 'p' || next == 'P') {
        const std::string script = ScriptClass(regex.substr(i - 1));
        out += script.empty() ? regex.substr(i - 1, 2) : std::string_view(script);
        if (!script.empty()) i = regex.find('}', i);
      } else if (next == 'u') {  // four digits
        const std::string_view digits = regex.substr(i + 1, 4);
        if (digits.size() != 4 ||
            digits.find_first_not_of("0123456789abcdefABCDEF") != std::string_view::npos)
          return InvalidInput("byte {}: \\u needs four hexadecimal digits", i);
        out += fmt::format("\\x{{{}}}", digits);
        i += digits.size();
      } else if (next == 'C' || next == 'K' || next == 'W') {
        return Unsupported("\\{} at byte {}", next, i - 1);
      } else {
        out += c;
        out += next;
      }
      continue;
    }
    if (in_class && c == '&' && regex.substr(i).starts_with("&&"))
      return Unsupported("an intersection of classes (&&) at byte {}", i);
    if (in_class && c == '[' && !regex.substr(i).starts_with("[:"))
      return Unsupported("a class within a class at byte {}", i);
    if (c == '[') {
      in_class = true;
      // A bracket that closes nothing stands for itself: []x] and [^]x].
      out += c;
      if (regex.substr(i + 1).starts_with('^')) out += regex[++i];
      if (regex.substr(i + 1).starts_with(']')) out += regex[++i];
      continue;
    }
    if (c == ']') in_class = false;
    out += c;
  }
  return out;
}

struct FreeData {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};
struct FreeContext {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};

}  // namespace

struct Pattern::Code {
  std::string regex;
  OwnedCode code;
};

Result<Pattern> Pattern::Make(std::string_view regex) {
  if (regex.size() > kMaxPatternBytes)
    return Fail(ErrorCode::kTooLarge, "a pattern of {} bytes, expected at most {}", regex.size(),
                kMaxPatternBytes);
  const std::string named = fmt::format("pattern {}", regex.substr(0, 80));
  EVOQ_ASSIGN(const std::string spelled, WithContext(Translated(regex), named));
  int error = 0;
  size_t place = 0;
  OwnedCode code = Compiled(spelled, error, place);
  if (code == nullptr) {
    PCRE2_UCHAR message[256];
    pcre2_get_error_message(error, message, sizeof(message));
    return InvalidInput("{}: {} at byte {}", named, reinterpret_cast<const char*>(message), place);
  }
  Pattern pattern;
  auto owned = std::make_shared<Code>();
  owned->regex = std::string(regex);
  owned->code = std::move(code);
  pattern.code_ = std::move(owned);
  return pattern;
}

Result<Pattern> Pattern::Literal(std::string_view text) {
  std::string regex;
  for (const char c : text) {
    if ((c & 0x80) == 0 && std::isalnum(static_cast<unsigned char>(c)) == 0) regex += '\\';
    regex += c;
  }
  return Make(regex);
}

Status Pattern::ForEachMatch(std::string_view text,
                             const std::function<void(size_t, size_t)>& found) const {
  const std::unique_ptr<pcre2_match_data, FreeData> data(
      pcre2_match_data_create_from_pattern(code_->code.get(), nullptr));
  const std::unique_ptr<pcre2_match_context, FreeContext> context(
      pcre2_match_context_create(nullptr));
  if (data == nullptr || context == nullptr)
    return Fail(ErrorCode::kTooLarge, "no memory to match a pattern");
  // A run of spaces is tried once from each of its characters at most.
  const size_t steps = size_t{1000000} + 16 * std::min<size_t>(text.size(), 1 << 26);
  pcre2_set_match_limit(context.get(), static_cast<uint32_t>(std::min<size_t>(steps, 1u << 31)));
  pcre2_set_heap_limit(context.get(), kMaxHeapKib);
  for (size_t at = 0; at < text.size();) {
    const int count = pcre2_match(code_->code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()),
                                  text.size(), at, PCRE2_NO_UTF_CHECK, data.get(), context.get());
    if (count == PCRE2_ERROR_NOMATCH) break;
    if (count < 0)
      return Fail(ErrorCode::kTooLarge,
                  "pattern {}: a match at byte {} of the text takes too much work",
                  code_->regex.substr(0, 80), at);
    const size_t* ends = pcre2_get_ovector_pointer(data.get());
    const size_t begin = ends[0], end = ends[1];
    if (end > begin && begin >= at) found(begin, end);
    at = std::max(end, at);
    if (end <= begin) {  // an empty match: on by a character
      do ++at;
      while (at < text.size() && (text[at] & 0xC0) == 0x80);
    }
  }
  return {};
}

}  // namespace evoq
