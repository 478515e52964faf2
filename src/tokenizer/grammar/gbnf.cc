#include <algorithm>
#include <cctype>
#include <map>

#include "base/text.h"
#include "tokenizer/grammar/grammar.h"

namespace evoq {
namespace {

using Symbol = Grammar::Symbol;
using Sequence = Grammar::Sequence;

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<std::shared_ptr<const Grammar>> Parse() {
    for (Space(true); at_ < text_.size(); Space(true)) EVOQ_TRY(Rule());
    const auto root = rules_.find("root");
    for (const auto& [name, rule] : rules_) {
      if (!rule.defined)
        return Error(rule.at, fmt::format("there is no rule {}", PrintableName(name)));
    }
    if (root == rules_.end()) return InvalidInput("the grammar has no rule root");
    return builder_.Finish(root->second.symbol);
  }

 private:
  struct Named {
    Symbol symbol;
    size_t at;  // where it was first named
    bool defined = false;
  };
  static constexpr int kMaxDepth = 100;

  static std::string PrintableName(std::string_view name) {
    return std::string(name.substr(0, 100));
  }

  tl::unexpected<evoq::Error> Error(size_t at, const std::string& what) const {
    const std::string_view before = text_.substr(0, at);
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    const size_t begin = before.rfind('\n') == before.npos ? 0 : before.rfind('\n') + 1;
    return InvalidInput("grammar, line {}, column {}: {}", line, at - begin + 1, what);
  }
  tl::unexpected<evoq::Error> Expected(const std::string& what) const {
    const std::string_view rest = text_.substr(at_, 10);
    return Error(at_,
                 fmt::format("found '{}', expected {}", rest.substr(0, rest.find('\n')), what));
  }

  bool Next(std::string_view token) {
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }
  char Peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  // Spaces and comments, with line breaks too.
  void Space(bool lines) {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '#') {
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      } else if (c == ' ' || c == '\t' || (lines && (c == '\n' || c == '\r'))) {
        ++at_;
      } else {
        break;
      }
    }
  }

  std::string_view Word() {
    const size_t begin = at_;
    while (std::isalnum(static_cast<unsigned char>(Peek())) || Peek() == '-' || Peek() == '_')
      ++at_;
    return text_.substr(begin, at_ - begin);
  }

  Named& Find(std::string_view name, size_t at) {
    const auto found = rules_.find(name);
    if (found != rules_.end()) return found->second;
    const Symbol symbol = builder_.NewRule();
    builder_.Name(symbol, PrintableName(name));
    return rules_.emplace(std::string(name), Named{symbol, at}).first->second;
  }

  Status Rule() {
    const size_t begin = at_;
    const std::string_view name = Word();
    if (name.empty()) return Expected("a rule's name");
    Named& rule = Find(name, begin);
    if (rule.defined)
      return Error(begin, fmt::format("rule {} is there twice", PrintableName(name)));
    rule.defined = true;
    Space(false);
    if (!Next("::=")) return Expected("::=");
    Space(true);
    EVOQ_TRY(Choices(rule.symbol, 0));
    Space(false);
    if (at_ < text_.size() && Peek() != '\n' && Peek() != '\r')
      return Expected("the end of the line");
    return {};
  }

  // Sequences with | between them; the lines of groups may break anywhere.
  Status Choices(Symbol into, int depth) {
    if (depth > kMaxDepth) return Error(at_, "groups nest too deeply");
    do {
      Space(true);
      EVOQ_ASSIGN(Sequence sequence, Items(depth));
      builder_.Add(into, std::move(sequence));
      if (depth > 0) {
        Space(true);
      } else {
        SpaceBefore('|');
      }
    } while (Next("|"));
    return {};
  }

  // Space, line breaks only where this follows them.
  void SpaceBefore(char c) {
    Space(false);
    const size_t here = at_;
    Space(true);
    if (Peek() != c) at_ = here;
  }

  Result<Sequence> Items(int depth) {
    Sequence sequence;
    for (;; depth > 0 ? Space(true) : Space(false)) {
      Sequence item;
      const size_t begin = at_;
      if (Peek() == '"') {
        EVOQ_ASSIGN(item, Literal());
      } else if (Peek() == '[') {
        EVOQ_ASSIGN(const Symbol set, Class());
        item = {set};
      } else if (Next(".")) {
        item = {builder_.Character({}, true)};
      } else if (Next("(")) {
        const Symbol group = builder_.NewRule();
        EVOQ_TRY(Choices(group, depth + 1));
        Space(true);
        if (!Next(")")) return Expected(")");
        item = {group};
      } else if (const std::string_view name = Word(); !name.empty()) {
        item = {Find(name, begin).symbol};
      } else {
        return sequence;
      }
      EVOQ_TRY(Repeated(item));
      sequence.insert(sequence.end(), item.begin(), item.end());
    }
  }

  Result<int64_t> Number() {
    const size_t begin = at_;
    int64_t number = 0;
    for (; Peek() >= '0' && Peek() <= '9' && at_ - begin < 9; ++at_)
      number = number * 10 + (Peek() - '0');
    if (at_ == begin) return Expected("a number");
    return number;
  }

  Status Repeated(Sequence& item) {
    int64_t least = 0, most = -1;
    if (Next("*")) {
    } else if (Next("+")) {
      least = 1;
    } else if (Next("?")) {
      most = 1;
    } else if (const size_t begin = at_; Next("{")) {
      EVOQ_ASSIGN(least, Number());
      most = least;
      if (Next(",")) {
        most = -1;
        if (Peek() != '}') {
          EVOQ_ASSIGN(most, Number());
        }
      }
      if (!Next("}")) return Expected("}");
      if (most >= 0 && most < least) return Error(begin, "repeated fewer times than at least");
    } else {
      return {};
    }
    const Symbol symbol = item.size() == 1 ? item[0] : builder_.Choice({item});
    item = builder_.Repeat(symbol, least, most);
    return {};
  }

  // A character of a literal or a class, perhaps escaped.
  Result<uint32_t> Character() {
    if (at_ >= text_.size()) return Expected("a character");
    if (Peek() != '\\') {
      const Utf8Character c = Utf8At(text_, at_);
      at_ += c.bytes;
      return c.code;
    }
    ++at_;
    const char c = Peek();
    ++at_;
    switch (c) {
      case 'n': return '\n';
      case 't': return '\t';
      case 'r': return '\r';
      case 'x': return Hex(2);
      case 'u': return Hex(4);
      case 'U': return Hex(8);
      default: break;
    }
    if (c != '\0' && std::string_view("\"\\[]-^/'").find(c) != std::string_view::npos)
      return static_cast<uint32_t>(c);
    --at_;
    return Expected("one of n t r x u U \" \\ [ ] behind \\");
  }
  Result<uint32_t> Hex(int digits) {
    uint32_t code = 0;
    for (int i = 0; i < digits; ++i, ++at_) {
      const char c = Peek();
      if (!std::isxdigit(static_cast<unsigned char>(c)))
        return Expected(fmt::format("{} hexadecimal digits", digits));
      code = code * 16 + static_cast<uint32_t>(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
    }
    constexpr uint32_t kLast = 0x10FFFF;
    if (code > kLast) return Error(at_, "a character behind U+10FFFF");
    return code;
  }

  Result<Sequence> Literal() {
    const size_t begin = at_++;
    Sequence sequence;
    while (!Next("\"")) {
      if (at_ >= text_.size() || Peek() == '\n') return Error(begin, "a text without its end");
      EVOQ_ASSIGN(const uint32_t code, Character());
      sequence.push_back(builder_.Character({{code, code}}));
    }
    return sequence;
  }

  Result<Symbol> Class() {
    const size_t begin = at_++;
    const bool others = Next("^");
    std::vector<GrammarBuilder::Range> ranges;
    while (!Next("]")) {
      if (at_ >= text_.size() || Peek() == '\n') return Error(begin, "a class without its end");
      EVOQ_ASSIGN(const uint32_t low, Character());
      uint32_t high = low;
      if (Peek() == '-' && !text_.substr(at_).starts_with("-]")) {
        ++at_;
        EVOQ_ASSIGN(high, Character());
        if (high < low) return Error(begin, "a range that ends before its beginning");
      }
      ranges.push_back({low, high});
    }
    return builder_.Character(std::move(ranges), others);
  }

  std::string_view text_;
  size_t at_ = 0;
  GrammarBuilder builder_;
  std::map<std::string, Named, std::less<>> rules_;
};

}  // namespace

Result<std::shared_ptr<const Grammar>> ParseGrammar(std::string_view text) {
  constexpr size_t kMaxBytes = size_t{1} << 20;
  if (text.size() > kMaxBytes)
    return Fail(ErrorCode::kTooLarge, "a grammar of {} bytes, expected at most {}", text.size(),
                kMaxBytes);
  return Parser(text).Parse();
}

}  // namespace evoq
