#include "tokenizer/template/parser.h"

#include <algorithm>
#include <charconv>

#include "tokenizer/template/lexer.h"

namespace evoq::chat {
namespace {

constexpr int kMaxDepth = 100, kMaxHeight = 200;

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  Result<Block> Run() {
    EVOQ_ASSIGN(Block block, Body({}));
    return block;
  }

 private:
  using Expr = Result<ExpressionPtr>;

  const Token& token() const { return tokens_[at_]; }
  void Skip() { at_ += at_ + 1 < tokens_.size() ? 1 : 0; }
  bool Is(TokenKind kind, std::string_view text) const {
    return token().kind == kind && token().text == text;
  }
  bool IsOperator(std::string_view text) const { return Is(TokenKind::kOperator, text); }
  bool IsWord(std::string_view text) const { return Is(TokenKind::kName, text); }
  bool TakeOperator(std::string_view text) { return IsOperator(text) && (Skip(), true); }
  bool TakeWord(std::string_view text) { return IsWord(text) && (Skip(), true); }

  std::string Found() const {
    switch (token().kind) {
      case TokenKind::kEnd: return "the end of the tag";
      case TokenKind::kFileEnd: return "the end of the template";
      case TokenKind::kText: return "text";
      default: return fmt::format("\"{}\"", token().text);
    }
  }
  tl::unexpected<Error> Expected(std::string_view what) const {
    return InvalidInput("line {}: {}, expected {}", token().line, Found(), what);
  }
  Status Need(std::string_view op) {
    if (!TakeOperator(op)) return Expected(fmt::format("\"{}\"", op));
    return {};
  }
  Result<std::string> NeedName() {
    if (token().kind != TokenKind::kName) return Expected("a name");
    std::string name = token().text;
    Skip();
    return name;
  }
  Status NeedEnd() {
    if (token().kind != TokenKind::kEnd) return Expected("the end of the tag");
    Skip();
    return {};
  }

  // Levels of nesting, for as long as it lives.
  struct Level {
    explicit Level(int& depth) : depth(++depth) {}
    ~Level() { --depth; }
    int& depth;
  };
  Status CheckDepth() const {
    if (depth_ > kMaxDepth)
      return InvalidInput("line {}: nested deeper than {} levels", token().line, kMaxDepth);
    return {};
  }

  ExpressionPtr Make(Op op, std::string text = "") const {
    auto e = std::make_unique<Expression>();
    e->op = op;
    e->line = token().line;
    e->text = std::move(text);
    return e;
  }
  template <typename... Args>
  ExpressionPtr Join(Op op, std::string text, int line, Args... args) const {
    ExpressionPtr e = Make(op, std::move(text));
    e->line = line;
    (e->args.push_back(std::move(args)), ...);
    for (const ExpressionPtr& arg : e->args)
      e->height = std::max(e->height, arg == nullptr ? 1 : arg->height + 1);
    return e;
  }

  // A chain is a tree as high as it is long.
  Status CheckHeight(const ExpressionPtr& e) const {
    if (e->height > kMaxHeight)
      return InvalidInput("line {}: an expression of more than {} levels", e->line, kMaxHeight);
    return {};
  }

  // ---- statements

  // Up to a statement whose word is in `ends`, which is the next token.
  Result<Block> Body(std::vector<std::string_view> ends) {
    const Level level(depth_);
    EVOQ_TRY(CheckDepth());
    Block block;
    const int begun = token().line;
    while (true) {
      const Token& t = token();
      if (t.kind == TokenKind::kFileEnd) {
        if (ends.empty()) return block;
        return InvalidInput("line {}: a block without {}", begun, ends.back());
      }
      if (t.kind == TokenKind::kText) {
        block.push_back({.what = Do::kText, .line = t.line, .text = t.text});
        Skip();
        continue;
      }
      if (t.kind == TokenKind::kExpressionBegin) {
        Skip();
        Statement print{.what = Do::kPrint, .line = token().line};
        EVOQ_ASSIGN(print.value, Tuple());
        EVOQ_TRY(NeedEnd());
        block.push_back(std::move(print));
        continue;
      }
      Skip();
      if (token().kind == TokenKind::kName &&
          std::find(ends.begin(), ends.end(), token().text) != ends.end())
        return block;
      EVOQ_TRY(One(block));
    }
  }

  Status One(Block& block) {
    struct Row {
      const char* word;
      Status (Parser::*parse)(Statement&);
    };
    constexpr Row kRows[] = {{"if", &Parser::If},       {"for", &Parser::For},
                             {"set", &Parser::Set},     {"macro", &Parser::MacroBody},
                             {"break", &Parser::Break}, {"continue", &Parser::Continue}};
    if (IsWord("generation") || IsWord("endgeneration")) {  // transformers' mark of what is said
      Skip();
      return NeedEnd();
    }
    for (const Row& row : kRows) {
      if (!IsWord(row.word)) continue;
      Statement statement{.what = Do::kText, .line = token().line};
      Skip();
      EVOQ_TRY((this->*row.parse)(statement));
      block.push_back(std::move(statement));
      return {};
    }
    return Unsupported("line {}: the statement {}", token().line, Found());
  }

  // Behind the condition's word.
  Status If(Statement& s) {
    s.what = Do::kIf;
    EVOQ_ASSIGN(s.value, Any());
    EVOQ_TRY(NeedEnd());
    EVOQ_ASSIGN(s.body, Body({"elif", "else", "endif"}));
    if (TakeWord("elif")) {
      const Level level(depth_);
      EVOQ_TRY(CheckDepth());
      Statement next{.what = Do::kIf, .line = token().line};
      EVOQ_TRY(If(next));
      s.otherwise.push_back(std::move(next));
      return {};
    }
    if (TakeWord("else")) {
      EVOQ_TRY(NeedEnd());
      EVOQ_ASSIGN(s.otherwise, Body({"endif"}));
    }
    Skip();
    return NeedEnd();
  }

  Result<std::vector<std::string>> Targets() {
    std::vector<std::string> names;
    const bool parenthesis = TakeOperator("(");
    do {
      EVOQ_ASSIGN(std::string name, NeedName());
      names.push_back(std::move(name));
    } while (TakeOperator(","));
    if (parenthesis) EVOQ_TRY(Need(")"));
    return names;
  }

  Status For(Statement& s) {
    s.what = Do::kFor;
    EVOQ_ASSIGN(s.targets, Targets());
    if (!TakeWord("in")) return Expected("in");
    EVOQ_ASSIGN(s.value, Or());
    if (TakeWord("if")) {
      EVOQ_ASSIGN(s.condition, Any());
    }
    if (IsWord("recursive")) return Unsupported("line {}: a recursive loop", token().line);
    EVOQ_TRY(NeedEnd());
    ++loops_;
    EVOQ_ASSIGN(s.body, Body({"else", "endfor"}));
    --loops_;
    if (TakeWord("else")) {
      EVOQ_TRY(NeedEnd());
      EVOQ_ASSIGN(s.otherwise, Body({"endfor"}));
    }
    Skip();
    return NeedEnd();
  }

  Status Set(Statement& s) {
    s.what = Do::kSet;
    EVOQ_ASSIGN(s.targets, Targets());
    if (s.targets.size() == 1 && TakeOperator(".")) {
      EVOQ_ASSIGN(const std::string attribute, NeedName());
      s.targets[0] += "." + attribute;
    }
    if (TakeOperator("=")) {
      EVOQ_ASSIGN(s.value, Tuple());
      return NeedEnd();
    }
    s.what = Do::kSetBlock;
    EVOQ_TRY(NeedEnd());
    EVOQ_ASSIGN(s.body, Body({"endset"}));
    Skip();
    return NeedEnd();
  }

  Status MacroBody(Statement& s) {
    s.what = Do::kMacro;
    s.macro = std::make_unique<Macro>();
    EVOQ_ASSIGN(s.macro->name, NeedName());
    EVOQ_TRY(Need("("));
    while (!IsOperator(")")) {
      EVOQ_ASSIGN(std::string name, NeedName());
      s.macro->parameters.push_back(std::move(name));
      s.macro->defaults.emplace_back();
      if (TakeOperator("=")) {
        EVOQ_ASSIGN(s.macro->defaults.back(), Any());
      }
      if (!TakeOperator(",")) break;
    }
    EVOQ_TRY(Need(")"));
    EVOQ_TRY(NeedEnd());
    const int loops = std::exchange(loops_, 0);
    EVOQ_ASSIGN(s.macro->body, Body({"endmacro"}));
    loops_ = loops;
    Skip();
    if (IsWord(s.macro->name)) Skip();
    return NeedEnd();
  }

  Status Break(Statement& s) { return Jump(s, Do::kBreak); }
  Status Continue(Statement& s) { return Jump(s, Do::kContinue); }
  Status Jump(Statement& s, Do what) {
    s.what = what;
    if (loops_ == 0) return InvalidInput("line {}: outside of a loop", s.line);
    return NeedEnd();
  }

  // ---- expressions, the loosest first

  // "a, b" is a list.
  Expr Tuple() {
    const int line = token().line;
    EVOQ_ASSIGN(ExpressionPtr first, Any());
    if (!IsOperator(",")) return first;
    ExpressionPtr list = Join(Op::kList, "", line, std::move(first));
    while (TakeOperator(",") && token().kind != TokenKind::kEnd && !IsOperator(")")) {
      EVOQ_ASSIGN(ExpressionPtr item, Any());
      list->args.push_back(std::move(item));
    }
    return list;
  }

  Expr Any() {
    const Level level(depth_);
    EVOQ_TRY(CheckDepth());
    EVOQ_ASSIGN(ExpressionPtr value, Or());
    if (!IsWord("if")) return value;
    const int line = token().line;
    Skip();
    EVOQ_ASSIGN(ExpressionPtr condition, Or());
    ExpressionPtr otherwise;
    if (TakeWord("else")) {
      EVOQ_ASSIGN(otherwise, Any());
    }
    return Join(Op::kIf, "", line, std::move(condition), std::move(value), std::move(otherwise));
  }

  Expr Or() { return Chain("or", Op::kOr, &Parser::And); }
  Expr And() { return Chain("and", Op::kAnd, &Parser::Not); }
  Expr Chain(std::string_view word, Op op, Expr (Parser::*next)()) {
    EVOQ_ASSIGN(ExpressionPtr left, (this->*next)());
    while (IsWord(word)) {
      const int line = token().line;
      Skip();
      EVOQ_ASSIGN(ExpressionPtr right, (this->*next)());
      left = Join(op, "", line, std::move(left), std::move(right));
      EVOQ_TRY(CheckHeight(left));
    }
    return left;
  }

  Expr Not() {
    if (!IsWord("not")) return Compared();
    const Level level(depth_);
    EVOQ_TRY(CheckDepth());
    const int line = token().line;
    Skip();
    EVOQ_ASSIGN(ExpressionPtr value, Not());
    return Join(Op::kNot, "", line, std::move(value));
  }

  std::string Comparison() {
    for (const std::string_view op : {"==", "!=", "<=", ">=", "<", ">"}) {
      if (TakeOperator(op)) return std::string(op);
    }
    if (TakeWord("in")) return "in";
    if (IsWord("not") && tokens_[std::min(at_ + 1, tokens_.size() - 1)].text == "in") {
      Skip();
      Skip();
      return "not in";
    }
    return "";
  }

  Expr Compared() {
    EVOQ_ASSIGN(ExpressionPtr left, Sum());
    const int line = token().line;
    const std::string op = Comparison();
    if (op.empty()) return left;
    EVOQ_ASSIGN(ExpressionPtr right, Sum());
    ExpressionPtr result = Join(Op::kCompare, op, line, std::move(left), std::move(right));
    if (!Comparison().empty()) return Unsupported("line {}: a chain of comparisons", line);
    return result;
  }

  Expr Sum() { return Infix({"+", "-"}, &Parser::Concatenation); }
  Expr Concatenation() { return Infix({"~"}, &Parser::Product); }
  Expr Product() { return Infix({"*", "/", "//", "%"}, &Parser::Power); }
  Expr Power() { return Infix({"**"}, &Parser::Unary); }
  Expr Infix(std::vector<std::string_view> operators, Expr (Parser::*next)()) {
    EVOQ_ASSIGN(ExpressionPtr left, (this->*next)());
    while (token().kind == TokenKind::kOperator &&
           std::find(operators.begin(), operators.end(), token().text) != operators.end()) {
      const std::string op = token().text;
      const int line = token().line;
      Skip();
      EVOQ_ASSIGN(ExpressionPtr right, (this->*next)());
      left = Join(Op::kBinary, op, line, std::move(left), std::move(right));
      EVOQ_TRY(CheckHeight(left));
    }
    return left;
  }

  Expr Unary() {
    EVOQ_ASSIGN(ExpressionPtr value, Signed());
    return Filters(std::move(value));
  }

  Expr Signed() {
    const Level level(depth_);
    EVOQ_TRY(CheckDepth());
    const int line = token().line;
    if (TakeOperator("+")) return Signed();
    if (TakeOperator("-")) {
      EVOQ_ASSIGN(ExpressionPtr value, Signed());
      return Join(Op::kNegative, "", line, std::move(value));
    }
    EVOQ_ASSIGN(ExpressionPtr value, Primary());
    return Postfix(std::move(value));
  }

  Expr Filters(ExpressionPtr value) {
    while (true) {
      EVOQ_TRY(CheckHeight(value));
      const int line = token().line;
      if (TakeOperator("|")) {
        EVOQ_ASSIGN(std::string name, NeedName());
        value = Join(Op::kFilter, std::move(name), line, std::move(value));
        if (TakeOperator("(")) EVOQ_TRY(Arguments(*value));
        EVOQ_ASSIGN(value, Postfix(std::move(value)));
      } else if (TakeWord("is")) {
        const bool negative = TakeWord("not");
        EVOQ_ASSIGN(std::string name, NeedName());
        value = Join(Op::kTest, std::move(name), line, std::move(value));
        if (TakeOperator("(")) {
          EVOQ_TRY(Arguments(*value));
        } else if (BeginsArgument()) {
          EVOQ_ASSIGN(ExpressionPtr argument, Signed());
          value->args.push_back(std::move(argument));
        }
        if (negative) value = Join(Op::kNot, "", line, std::move(value));
      } else {
        return value;
      }
    }
  }

  // Whether a test's one argument may follow without parentheses.
  bool BeginsArgument() const {
    const TokenKind kind = token().kind;
    if (kind == TokenKind::kName) {
      for (const std::string_view word : {"else", "or", "and", "not", "if", "is", "in"}) {
        if (token().text == word) return false;
      }
      return true;
    }
    return kind == TokenKind::kString || kind == TokenKind::kInteger || kind == TokenKind::kFloat ||
           IsOperator("[") || IsOperator("{");
  }

  Status Arguments(Expression& call) {
    const Level level(depth_);
    EVOQ_TRY(CheckDepth());
    while (!IsOperator(")")) {
      const bool named = token().kind == TokenKind::kName && at_ + 1 < tokens_.size() &&
                         tokens_[at_ + 1].kind == TokenKind::kOperator &&
                         tokens_[at_ + 1].text == "=";
      std::string name;
      if (named) {
        name = token().text;
        Skip();
        Skip();
      }
      EVOQ_ASSIGN(ExpressionPtr value, Any());
      if (named)
        call.named.emplace_back(std::move(name), std::move(value));
      else
        call.args.push_back(std::move(value));
      if (!TakeOperator(",")) break;
    }
    return Need(")");
  }

  Expr Postfix(ExpressionPtr value) {
    while (true) {
      EVOQ_TRY(CheckHeight(value));
      const int line = token().line;
      if (TakeOperator(".")) {
        if (token().kind == TokenKind::kInteger) {
          EVOQ_ASSIGN(ExpressionPtr index, Primary());
          value = Join(Op::kIndex, "", line, std::move(value), std::move(index));
          continue;
        }
        EVOQ_ASSIGN(std::string name, NeedName());
        value = Join(Op::kAttribute, std::move(name), line, std::move(value));
      } else if (TakeOperator("[")) {
        EVOQ_ASSIGN(value, Subscript(std::move(value), line));
      } else if (TakeOperator("(")) {
        value = Join(Op::kCall, "", line, std::move(value));
        EVOQ_TRY(Arguments(*value));
      } else {
        return value;
      }
    }
  }

  Expr Subscript(ExpressionPtr value, int line) {
    ExpressionPtr parts[3];
    int colons = 0;
    while (!IsOperator("]")) {
      if (IsOperator(":")) {
        if (++colons > 2) return Expected("\"]\"");
        Skip();
        continue;
      }
      if (parts[colons] != nullptr) return Expected("\"]\"");
      EVOQ_ASSIGN(parts[colons], Any());
    }
    Skip();
    if (colons == 0) {
      if (parts[0] == nullptr) return InvalidInput("line {}: an empty index", line);
      return Join(Op::kIndex, "", line, std::move(value), std::move(parts[0]));
    }
    return Join(Op::kSlice, "", line, std::move(value), std::move(parts[0]), std::move(parts[1]),
                std::move(parts[2]));
  }

  Expr Primary() {
    const Token t = token();
    ExpressionPtr e = Make(Op::kConstant);
    switch (t.kind) {
      case TokenKind::kName:
        Skip();
        if (t.text == "true" || t.text == "True") {
          e->constant = true;
        } else if (t.text == "false" || t.text == "False") {
          e->constant = false;
        } else if (t.text == "none" || t.text == "None") {
          e->constant = nullptr;
        } else {
          e->op = Op::kName;
          e->text = t.text;
        }
        return e;
      case TokenKind::kString: {
        std::string text;
        for (; token().kind == TokenKind::kString; Skip()) text += token().text;
        e->constant = std::move(text);
        return e;
      }
      case TokenKind::kInteger: {
        int64_t value = 0;
        if (std::from_chars(t.text.data(), t.text.data() + t.text.size(), value).ec != std::errc())
          return Expected("a number of 64 bits");
        Skip();
        e->constant = value;
        return e;
      }
      case TokenKind::kFloat: {
        double value = 0;
        std::from_chars(t.text.data(), t.text.data() + t.text.size(), value);
        Skip();
        e->constant = value;
        return e;
      }
      default: return Bracketed(std::move(e));
    }
  }

  Expr Bracketed(ExpressionPtr e) {
    if (TakeOperator("(")) {
      if (TakeOperator(")")) {
        e->op = Op::kList;
        return e;
      }
      EVOQ_ASSIGN(ExpressionPtr inner, Tuple());
      EVOQ_TRY(Need(")"));
      return inner;
    }
    if (TakeOperator("[")) {
      e->op = Op::kList;
      while (!IsOperator("]")) {
        EVOQ_ASSIGN(ExpressionPtr item, Any());
        e->args.push_back(std::move(item));
        if (!TakeOperator(",")) break;
      }
      EVOQ_TRY(Need("]"));
      return e;
    }
    if (TakeOperator("{")) {
      e->op = Op::kDict;
      while (!IsOperator("}")) {
        EVOQ_ASSIGN(ExpressionPtr key, Any());
        EVOQ_TRY(Need(":"));
        EVOQ_ASSIGN(ExpressionPtr value, Any());
        e->args.push_back(std::move(key));
        e->args.push_back(std::move(value));
        if (!TakeOperator(",")) break;
      }
      EVOQ_TRY(Need("}"));
      return e;
    }
    return Expected("a value");
  }

  std::vector<Token> tokens_;
  size_t at_ = 0;
  int depth_ = 0, loops_ = 0;
};

}  // namespace

Result<Block> Parse(std::string_view source) {
  EVOQ_ASSIGN(std::vector<Token> tokens, Tokenize(source));
  return Parser(std::move(tokens)).Run();
}

}  // namespace evoq::chat
