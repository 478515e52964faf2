// RegexFullMatch(x): whether each string is matched as a whole by the pattern, in RE2's syntax without Unicode classes. The
// pattern becomes a program of a few instructions that walks all alternatives at once, so that no pattern takes more than
// its length times the string's.
#include <algorithm>
#include <cstring>

#include "base/text.h"
#include "ops/indexing.h"
#include "ops/util.h"

namespace evoq {
namespace {

constexpr size_t kMaxProgram = 20000;
constexpr int kMaxRepeat = 1000, kMaxDepth = 200;

struct Range {
  uint32_t low, high;
};

struct Instruction {
  enum Kind { kSet, kSplit, kJump, kBegin, kEnd, kWordEdge, kNoWordEdge, kMatch } kind = kMatch;
  std::vector<Range> set;  // kSet, sorted in no order
  bool negated = false;
  size_t to = 0, other = 0;  // kSplit, kJump
};
using Code = std::vector<Instruction>;

// Code points of UTF-8; a byte that is none stands for itself.
std::vector<uint32_t> CodePoints(const std::string& text) {
  std::vector<uint32_t> points;
  for (size_t i = 0; i < text.size();) {
    const Utf8Character character = Utf8At(text, i);
    points.push_back(character.code);
    i += character.bytes;
  }
  return points;
}

const std::vector<Range> kDigits = {{'0', '9'}}, kWords = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}},
                         kSpaces = {{'\t', '\n'}, {'\f', '\r'}, {' ', ' '}};

bool Contains(const std::vector<Range>& set, uint32_t c) {
  return std::any_of(set.begin(), set.end(), [&](const Range& r) { return c >= r.low && c <= r.high; });
}

// All points but those of the set.
std::vector<Range> Others(std::vector<Range> set) {
  std::sort(set.begin(), set.end(), [](const Range& a, const Range& b) { return a.low < b.low; });
  std::vector<Range> rest;
  uint32_t next = 0;
  for (const Range& r : set) {
    if (r.low > next) rest.push_back({next, r.low - 1});
    next = std::max(next, r.high + 1);
  }
  rest.push_back({next, 0x10ffff});
  return rest;
}

class Compiler {
 public:
  explicit Compiler(const std::string& pattern) : pattern_(CodePoints(pattern)) {}

  Result<Code> Run() {
    EVOQ_ASSIGN(Code code, Alternatives(0));
    if (at_ < pattern_.size()) return Bad("a ')' without '('");
    code.push_back({});
    return code;
  }

 private:
  tl::unexpected<Error> Bad(std::string_view what) const { return InvalidInput("attribute pattern: {} at {}", what, at_); }
  bool End() const { return at_ >= pattern_.size(); }
  bool Next(uint32_t c) const { return !End() && pattern_[at_] == c; }
  bool Take(std::string_view text) {
    for (size_t i = 0; i < text.size(); ++i) {
      if (at_ + i >= pattern_.size() || pattern_[at_ + i] != static_cast<uint8_t>(text[i])) return false;
    }
    at_ += text.size();
    return true;
  }

  // Appends code whose jumps are relative to its own start.
  Status Append(Code& code, Code part) {
    const size_t base = code.size();
    for (Instruction& in : part) {
      in.to += base;
      in.other += base;
      code.push_back(std::move(in));
    }
    if (code.size() > kMaxProgram) return Fail(ErrorCode::kTooLarge, "attribute pattern: more than {} instructions", kMaxProgram);
    return {};
  }
  static Instruction Split(size_t to, size_t other) { return {.kind = Instruction::kSplit, .to = to, .other = other}; }
  static Instruction Jump(size_t to) { return {.kind = Instruction::kJump, .to = to}; }

  Result<Code> Alternatives(int depth) {
    if (depth > kMaxDepth) return Fail(ErrorCode::kTooLarge, "attribute pattern: groups nested more than {} deep", kMaxDepth);
    EVOQ_ASSIGN(Code code, Sequence(depth));
    while (Take("|")) {
      EVOQ_ASSIGN(Code other, Sequence(depth));
      Code both = {Split(1, code.size() + 2)};
      const size_t end = code.size() + other.size() + 2;
      EVOQ_TRY(Append(both, std::move(code)));
      both.push_back(Jump(end));
      EVOQ_TRY(Append(both, std::move(other)));
      code = std::move(both);
    }
    return code;
  }

  Result<Code> Sequence(int depth) {
    Code code;
    while (!End() && !Next('|') && !Next(')')) {
      EVOQ_ASSIGN(Code item, Item(depth));
      EVOQ_ASSIGN(item, Repeated(std::move(item)));
      EVOQ_TRY(Append(code, std::move(item)));
    }
    return code;
  }

  Result<Code> Repeated(Code item) {
    while (!End()) {
      int least = 0, most = -1;
      if (Take("*")) {
      } else if (Take("+")) {
        least = 1;
      } else if (Take("?")) {
        most = 1;
      } else if (!Next('{') || !Bounds(least, most)) {
        break;
      }
      Take("?");  // the lazy form matches the same strings
      if (least > kMaxRepeat || most > kMaxRepeat || (most >= 0 && most < least)) return Bad("a bad repetition");
      Code code;
      for (int i = 0; i < least; ++i) EVOQ_TRY(Append(code, item));
      if (most < 0) {  // L: split L+1, end; item; jump L
        const size_t start = code.size();
        code.push_back(Split(start + 1, start + item.size() + 2));
        EVOQ_TRY(Append(code, item));
        code.push_back(Jump(start));
      }
      for (int i = least; i < most; ++i) {
        const size_t start = code.size();
        code.push_back(Split(start + 1, start + item.size() + 1));
        EVOQ_TRY(Append(code, item));
      }
      item = std::move(code);
    }
    return item;
  }

  // {n}, {n,}, {n,m}; anything else is text.
  bool Bounds(int& least, int& most) {
    const size_t start = at_++;
    const auto number = [&](int& value) {
      bool any = false;
      for (value = 0; !End() && pattern_[at_] >= '0' && pattern_[at_] <= '9'; ++at_, any = true)
        value = std::min(value * 10 + static_cast<int>(pattern_[at_] - '0'), kMaxRepeat + 1);
      return any;
    };
    if (number(least)) {
      most = least;
      if (Take(",") && !number(most)) most = -1;
      if (Take("}")) return true;
    }
    at_ = start;
    return false;
  }

  static Code One(std::vector<Range> set, bool negated = false) {
    Code code(1);
    code[0].kind = Instruction::kSet;
    code[0].set = std::move(set);
    code[0].negated = negated;
    return code;
  }
  static Code Assertion(Instruction::Kind kind) {
    Code code(1);
    code[0].kind = kind;
    return code;
  }

  Result<Code> Item(int depth) {
    const uint32_t c = pattern_[at_++];
    switch (c) {
      case '(': {
        if (Take("?P<") || Take("?<")) {
          while (!End() && !Take(">")) ++at_;
        } else if (!Take("?:") && Next('?')) {
          return Bad("flags, which evoq does not have");
        }
        EVOQ_ASSIGN(Code code, Alternatives(depth + 1));
        if (!Take(")")) return Bad("expected ')'");
        return code;
      }
      case '[': return Class();
      case '.': return One({{'\n', '\n'}}, true);
      case '^': return Assertion(Instruction::kBegin);
      case '$': return Assertion(Instruction::kEnd);
      case '*':
      case '+':
      case '?': return Bad("nothing to repeat");
      case '\\': break;
      default: return One({{c, c}});
    }
    if (Take("b")) return Assertion(Instruction::kWordEdge);
    if (Take("B")) return Assertion(Instruction::kNoWordEdge);
    if (Take("A")) return Assertion(Instruction::kBegin);
    if (Take("z")) return Assertion(Instruction::kEnd);
    EVOQ_ASSIGN(std::vector<Range> set, Escape());
    return One(std::move(set));
  }

  // What follows a backslash, as a set.
  Result<std::vector<Range>> Escape() {
    if (End()) return Bad("a '\\' at the end");
    const uint32_t c = pattern_[at_++];
    switch (c) {
      case 'd': return kDigits;
      case 'D': return Others(kDigits);
      case 'w': return kWords;
      case 'W': return Others(kWords);
      case 's': return kSpaces;
      case 'S': return Others(kSpaces);
      case 'x': {
        const bool braces = Take("{");
        uint32_t value = 0;
        for (int i = 0; !End() && (braces ? !Next('}') && i < 6 : i < 2); ++i) {
          const char* const digits = "0123456789abcdefABCDEF";
          const char* digit = pattern_[at_] < 0x80 && pattern_[at_] > 0 ? std::strchr(digits, static_cast<int>(pattern_[at_])) : nullptr;
          if (digit == nullptr) return Bad("expected a hexadecimal number");
          const uint32_t place = static_cast<uint32_t>(digit - digits);
          value = value * 16 + (place < 16 ? place : place - 6);
          ++at_;
        }
        if (braces && !Take("}")) return Bad("expected '}'");
        return std::vector<Range>{{value, value}};
      }
      default: break;
    }
    constexpr std::string_view kNames = "nrtfva", kValues = "\n\r\t\f\v\a";
    const size_t named = c < 0x80 ? kNames.find(static_cast<char>(c)) : std::string_view::npos;
    if (named != std::string_view::npos) return std::vector<Range>{{static_cast<uint8_t>(kValues[named]), static_cast<uint8_t>(kValues[named])}};
    const bool letter = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
    if (letter) return Bad("an escape that evoq does not have");
    return std::vector<Range>{{c, c}};
  }

  Result<Code> Class() {
    const bool negated = Take("^");
    std::vector<Range> set;
    for (bool first = true; first || !Next(']'); first = false) {
      if (End()) return Bad("expected ']'");
      std::vector<Range> part;
      if (Take("[:")) {
        EVOQ_ASSIGN(part, NamedClass());
      } else if (Take("\\")) {
        EVOQ_ASSIGN(part, Escape());
      } else {
        part = {{pattern_[at_], pattern_[at_]}};
        ++at_;
      }
      const bool single = part.size() == 1 && part[0].low == part[0].high;
      if (single && Next('-') && at_ + 1 < pattern_.size() && pattern_[at_ + 1] != ']') {
        ++at_;
        std::vector<Range> end = {{pattern_[at_], pattern_[at_]}};
        ++at_;
        if (end[0].low == '\\') {
          EVOQ_ASSIGN(end, Escape());
        }
        if (end.size() != 1 || end[0].low < part[0].low) return Bad("a bad range");
        part[0].high = end[0].high;
      }
      set.insert(set.end(), part.begin(), part.end());
    }
    ++at_;
    return One(std::move(set), negated);
  }

  Result<std::vector<Range>> NamedClass() {
    struct Row {
      const char* name;
      std::vector<Range> set;
    };
    static const std::vector<Row> kRows = {
        {"alnum:]", {{'0', '9'}, {'A', 'Z'}, {'a', 'z'}}}, {"alpha:]", {{'A', 'Z'}, {'a', 'z'}}}, {"ascii:]", {{0, 127}}},
        {"blank:]", {{'\t', '\t'}, {' ', ' '}}}, {"cntrl:]", {{0, 31}, {127, 127}}}, {"digit:]", kDigits}, {"graph:]", {{'!', '~'}}},
        {"lower:]", {{'a', 'z'}}}, {"print:]", {{' ', '~'}}}, {"punct:]", {{'!', '/'}, {':', '@'}, {'[', '`'}, {'{', '~'}}},
        {"space:]", {{'\t', '\r'}, {' ', ' '}}}, {"upper:]", {{'A', 'Z'}}}, {"word:]", kWords}, {"xdigit:]", {{'0', '9'}, {'A', 'F'}, {'a', 'f'}}}};
    const bool negated = Take("^");
    for (const Row& row : kRows) {
      if (Take(row.name)) return negated ? Others(row.set) : row.set;
    }
    return Bad("an unknown class");
  }

  std::vector<uint32_t> pattern_;
  size_t at_ = 0;
};

// Adds `start` and what follows it without reading a character, at `place` of the text.
void Follow(const Code& code, size_t start, const std::vector<uint32_t>& text, size_t place, std::vector<bool>& seen, std::vector<size_t>& list) {
  std::vector<size_t> stack = {start};
  const auto word = [&](size_t i) { return i < text.size() && Contains(kWords, text[i]); };
  while (!stack.empty()) {
    const size_t at = stack.back();
    stack.pop_back();
    if (seen[at]) continue;
    seen[at] = true;
    const Instruction& in = code[at];
    const bool edge = word(place) != (place > 0 && word(place - 1));
    switch (in.kind) {
      case Instruction::kSplit: stack.push_back(in.other); [[fallthrough]];
      case Instruction::kJump: stack.push_back(in.to); break;
      case Instruction::kBegin: if (place == 0) stack.push_back(at + 1); break;
      case Instruction::kEnd: if (place == text.size()) stack.push_back(at + 1); break;
      case Instruction::kWordEdge: if (edge) stack.push_back(at + 1); break;
      case Instruction::kNoWordEdge: if (!edge) stack.push_back(at + 1); break;
      default: list.push_back(at);
    }
  }
}

bool FullMatch(const Code& code, const std::string& string) {
  const std::vector<uint32_t> text = CodePoints(string);
  std::vector<size_t> now, next;
  std::vector<bool> seen(code.size());
  Follow(code, 0, text, 0, seen, now);
  for (size_t i = 0; i < text.size() && !now.empty(); ++i) {
    next.clear();
    seen.assign(code.size(), false);
    for (size_t at : now) {
      if (code[at].kind == Instruction::kSet && Contains(code[at].set, text[i]) != code[at].negated) Follow(code, at + 1, text, i + 1, seen, next);
    }
    std::swap(now, next);
  }
  return std::any_of(now.begin(), now.end(), [&](size_t at) { return code[at].kind == Instruction::kMatch; });
}

InferResult Infer(const InferArgs& args) {
  EVOQ_TRY(CheckDType(args, 0, std::array{DType::kString}));
  EVOQ_ASSIGN(const std::string pattern, StringAttr(args.node, "pattern", ""));
  EVOQ_TRY(Compiler(pattern).Run());
  return std::vector<TensorType>{TensorType(DType::kBool, args.inputs[0].shape)};
}

EvalResult Evaluate(const EvalArgs& args) {
  EVOQ_ASSIGN(const Code code, Compiler(args.node.attrs.String("pattern")).Run());
  const Tensor& x = args.inputs[0];
  Tensor y = Tensor::Allocate(TensorType(DType::kBool, x.shape()));
  for (int64_t i = 0; i < x.elements(); ++i) y.mutable_data<bool>()[i] = FullMatch(code, x.data<std::string>()[i]);
  return One(std::move(y));
}

}  // namespace

extern const OpDef kRegexFullMatch = {.name = "RegexFullMatch", .strings = Strings::kOwn, .infer = Infer, .evaluate = Evaluate};

}  // namespace evoq
