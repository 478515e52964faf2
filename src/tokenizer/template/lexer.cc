#include "tokenizer/template/lexer.h"

#include <algorithm>
#include <array>

#include "tokenizer/unicode.h"

namespace evoq::chat {
namespace {

bool IsNameByte(char c, bool first) {
  const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  return letter || (!first && c >= '0' && c <= '9');
}

bool IsBlank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f'; }

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {
    if (source_.ends_with('\n')) source_.remove_suffix(1);
  }

  Result<std::vector<Token>> Run() {
    while (at_ < source_.size()) {
      const size_t tag = NextTag();
      EmitText(tag);
      if (tag == source_.size()) break;
      at_ = tag;
      const char kind = source_[at_ + 1];
      Advance(2);
      if (at_ < source_.size() && (source_[at_] == '-' || source_[at_] == '+')) Advance(1);
      if (kind == '#') {
        EVOQ_TRY(SkipComment());
        continue;
      }
      tokens_.push_back(
          {kind == '{' ? TokenKind::kExpressionBegin : TokenKind::kStatementBegin, "", line_});
      EVOQ_TRY(Inside(kind == '{' ? "}}" : "%}", kind == '%'));
    }
    tokens_.push_back({TokenKind::kFileEnd, "", line_});
    return std::move(tokens_);
  }

 private:
  void Advance(size_t bytes) {
    for (size_t i = 0; i < bytes; ++i) line_ += source_[at_ + i] == '\n';
    at_ += bytes;
  }

  size_t NextTag() const {
    for (size_t at = source_.find('{', at_); at < source_.size(); at = source_.find('{', at + 1)) {
      if (at + 1 < source_.size() &&
          std::string_view("{%#").find(source_[at + 1]) != std::string_view::npos)
        return at;
    }
    return source_.size();
  }

  // The text up to a tag, without what the tags around it take away.
  void EmitText(size_t tag) {
    std::string_view text = source_.substr(at_, tag - at_);
    const int line = line_;
    const bool after_tag = at_ > 0;
    Advance(text.size());
    if (strip_next_) {
      while (!text.empty() && IsBlank(text.front())) text.remove_prefix(1);
    } else if (trim_next_ && after_tag) {
      if (text.starts_with('\n')) text.remove_prefix(1);
    }
    const bool trimmed = strip_next_ || trim_next_;
    strip_next_ = trim_next_ = false;
    if (tag < source_.size()) {
      const char sign = tag + 2 < source_.size() ? source_[tag + 2] : ' ';
      if (sign == '-') {
        while (!text.empty() && IsBlank(text.back())) text.remove_suffix(1);
      } else if (source_[tag + 1] != '{' && sign != '+') {
        // Blanks between the line's beginning and a statement or a comment.
        size_t end = text.size();
        while (end > 0 && (text[end - 1] == ' ' || text[end - 1] == '\t')) --end;
        const bool begins_line = end > 0 ? text[end - 1] == '\n'
                                         : !after_tag || (trimmed && BeginsLine(tag, text.size()));
        if (begins_line) text = text.substr(0, end);
      }
    }
    if (!text.empty()) tokens_.push_back({TokenKind::kText, std::string(text), line});
  }

  // Whether what is left of a text of `bytes` before `tag` begins a line of the source.
  bool BeginsLine(size_t tag, size_t bytes) const {
    const size_t begin = tag - bytes;
    return begin == 0 || source_[begin - 1] == '\n';
  }

  Status SkipComment() {
    const int line = line_;
    const size_t end = source_.find("#}", at_);
    if (end == std::string_view::npos)
      return InvalidInput("line {}: a comment without an end", line);
    const bool strip = end > at_ && source_[end - 1] == '-';
    Advance(end + 2 - at_);
    strip_next_ = strip;
    trim_next_ = true;
    return {};
  }

  Status Inside(std::string_view end, bool statement) {
    const int begun = line_;
    int braces = 0;  // "}}" also ends two dicts
    while (true) {
      while (at_ < source_.size() && IsBlank(source_[at_])) Advance(1);
      if (at_ == source_.size()) return InvalidInput("line {}: a tag without an end", begun);
      const std::string_view rest = source_.substr(at_);
      const bool sign =
          rest.size() > 2 && (rest[0] == '-' || rest[0] == '+') && rest.substr(1).starts_with(end);
      if ((rest.starts_with(end) && braces == 0) || (sign && braces == 0)) {
        strip_next_ = sign && rest[0] == '-';
        trim_next_ = statement && !(sign && rest[0] == '+');
        Advance(end.size() + (sign ? 1 : 0));
        tokens_.push_back({TokenKind::kEnd, "", line_});
        return {};
      }
      EVOQ_TRY(One(braces));
    }
  }

  Status One(int& braces) {
    const std::string_view rest = source_.substr(at_);
    const char c = rest[0];
    if (IsNameByte(c, true)) {
      size_t n = 1;
      while (n < rest.size() && IsNameByte(rest[n], false)) ++n;
      return Emit(TokenKind::kName, n);
    }
    if (c >= '0' && c <= '9') {
      size_t n = 1;
      bool point = false;
      while (n < rest.size() && ((rest[n] >= '0' && rest[n] <= '9') ||
                                 (rest[n] == '.' && !point && n + 1 < rest.size() &&
                                  rest[n + 1] >= '0' && rest[n + 1] <= '9'))) {
        point = point || rest[n] == '.';
        ++n;
      }
      return Emit(point ? TokenKind::kFloat : TokenKind::kInteger, n);
    }
    if (c == '"' || c == '\'') return String(c);
    constexpr std::array<std::string_view, 25> kOperators = {
        "**", "//", "==", "!=", "<=", ">=", "+", "-", "*", "/", "%", "~", "<",
        ">",  "=",  "(",  ")",  "[",  "]",  "{", "}", ",", ".", ":", "|"};
    for (const std::string_view op : kOperators) {
      if (!rest.starts_with(op)) continue;
      braces += op == "{" ? 1 : op == "}" ? -1 : 0;
      return Emit(TokenKind::kOperator, op.size());
    }
    return InvalidInput("line {}: \"{}\" is not expected here", line_,
                        rest.substr(0, NextCharacter(rest, 0).bytes));
  }

  Status Emit(TokenKind kind, size_t bytes) {
    tokens_.push_back({kind, std::string(source_.substr(at_, bytes)), line_});
    Advance(bytes);
    return {};
  }

  Status String(char quote) {
    const int line = line_;
    std::string value;
    for (Advance(1); at_ < source_.size() && source_[at_] != quote; Advance(1)) {
      if (source_[at_] != '\\') {
        value += source_[at_];
        continue;
      }
      if (at_ + 1 >= source_.size()) break;
      Advance(1);
      EVOQ_TRY(Escape(value));
    }
    if (at_ >= source_.size()) return InvalidInput("line {}: a string without an end", line);
    Advance(1);
    tokens_.push_back({TokenKind::kString, std::move(value), line});
    return {};
  }

  // Of the character behind a backslash.
  Status Escape(std::string& value) {
    constexpr std::string_view kFrom = "ntrbfav0\\'\"", kTo("\n\t\r\b\f\a\v\0\\'\"", 11);
    const char c = source_[at_];
    if (const size_t place = kFrom.find(c); place != std::string_view::npos) {
      value += kTo[place];
      return {};
    }
    const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (digits == 0) {
      value += '\\';
      value += c;
      return {};
    }
    const std::string hex(source_.substr(at_ + 1, digits));
    if (hex.size() != digits ||
        hex.find_first_not_of("0123456789abcdefABCDEF") != std::string::npos)
      return InvalidInput("line {}: \\{} needs {} hexadecimal digits", line_, c, digits);
    const auto code = static_cast<uint32_t>(std::stoul(hex, nullptr, 16));
    if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000))
      return InvalidInput("line {}: \\{}{} is no character", line_, c, hex);
    AppendUtf8(value, code);
    Advance(digits);
    return {};
  }

  std::string_view source_;
  size_t at_ = 0;
  int line_ = 1;
  bool strip_next_ = false;  // a "-" ended the tag before
  bool trim_next_ = false;   // a statement ended
  std::vector<Token> tokens_;
};

}  // namespace

Result<std::vector<Token>> Tokenize(std::string_view source) {
  std::string lines;  // that end with \n
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') lines += source[i];
    if (source[i] == '\r' && !source.substr(i + 1).starts_with('\n')) lines += '\n';
  }
  return Lexer(lines).Run();
}

}  // namespace evoq::chat
