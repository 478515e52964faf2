#include "tokenizer/template/render.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "tokenizer/template/builtins.h"
#include "tokenizer/unicode.h"

namespace evoq::chat {
namespace {

constexpr int kMaxDepth = 400;  // of blocks, expressions and macros that are under way

using Scope = std::map<std::string, Value, std::less<>>;

// What a block ended with.
enum class Flow { kNext, kBreak, kContinue };

class Renderer {
 public:
  explicit Renderer(const Dict& variables) {
    scopes_.emplace_back();
    for (const auto& [name, value] : variables) scopes_.back()[name] = value;
  }

  Result<std::string> Run(const Block& block) {
    EVOQ_TRY(Execute(block));
    return std::move(out_);
  }

 private:
  // ---- statements

  // Levels that are under way, for as long as it lives.
  struct Level {
    explicit Level(int& depth) : depth(++depth) {}
    ~Level() { --depth; }
    int& depth;
  };
  Status Step() {
    if (depth_ > kMaxDepth)
      return Fail(ErrorCode::kTooLarge, "nested deeper than {} levels", kMaxDepth);
    return limits_.Step();
  }

  Result<Flow> Execute(const Block& block) {
    const Level level(depth_);
    for (const Statement& statement : block) {
      EVOQ_TRY(At(Step(), statement.line));
      Result<Flow> flow = One(statement);
      if (!flow) return At(std::move(flow), statement.line);
      if (*flow != Flow::kNext) return flow;
    }
    return Flow::kNext;
  }

  // The innermost line is told.
  template <typename T>
  static Result<T> At(Result<T> result, int line) {
    if (result || result.error().message().starts_with("line ")) return result;
    return WithContext(std::move(result), fmt::format("line {}", line));
  }

  Status Emit(std::string_view text) {
    EVOQ_TRY(limits_.Make(text.size()));
    out_ += text;
    return {};
  }

  Result<Flow> One(const Statement& s) {
    switch (s.what) {
      case Do::kText: EVOQ_TRY(Emit(s.text)); break;
      case Do::kPrint: {
        EVOQ_ASSIGN(const Value value, Evaluate(s.value.get()));
        EVOQ_TRY(Emit(Text(value)));
        break;
      }
      case Do::kIf: {
        EVOQ_ASSIGN(const Value value, Evaluate(s.value.get()));
        return Execute(value.truth() ? s.body : s.otherwise);
      }
      case Do::kFor: return For(s);
      case Do::kSet: {
        EVOQ_ASSIGN(const Value value, Evaluate(s.value.get()));
        EVOQ_TRY(Assign(s.targets, value));
        break;
      }
      case Do::kSetBlock: {
        EVOQ_ASSIGN(const std::string text, Captured([&] { return Execute(s.body); }));
        EVOQ_TRY(Assign(s.targets, Value(text)));
        break;
      }
      case Do::kMacro:
        scopes_.back()[s.macro->name] = Function{s.macro->name, s.macro.get()};
        break;
      case Do::kBreak: return Flow::kBreak;
      case Do::kContinue: return Flow::kContinue;
    }
    return Flow::kNext;
  }

  // What `run` puts out, as a text.
  template <typename Function>
  Result<std::string> Captured(Function run) {
    std::string outer = std::move(out_);
    out_.clear();
    const Result<Flow> flow = run();
    std::string inner = std::exchange(out_, std::move(outer));
    if (!flow) return tl::unexpected<Error>(flow.error());
    return inner;
  }

  Status Assign(const std::vector<std::string>& targets, const Value& value) {
    if (targets.size() == 1) {
      const size_t dot = targets[0].find('.');
      if (dot == std::string::npos) {
        scopes_.back()[targets[0]] = value;
        return {};
      }
      const Value* space = Find(std::string_view(targets[0]).substr(0, dot));
      if (space == nullptr || space->space() == nullptr)
        return InvalidInput("{} is no namespace", targets[0].substr(0, dot));
      if (value.holds_namespace()) return Unsupported("a namespace in a namespace");
      const std::string name = targets[0].substr(dot + 1);
      const bool added = Put(space->space()->members, name, value);
      return limits_.Make(added ? sizeof(Value) + name.size() : 0);
    }
    EVOQ_ASSIGN(const List items, Items(value, limits_));
    if (items.size() != targets.size())
      return InvalidInput("{} values for {} names", items.size(), targets.size());
    for (size_t i = 0; i < targets.size(); ++i) scopes_.back()[targets[i]] = items[i];
    return {};
  }

  Result<Flow> For(const Statement& s) {
    EVOQ_ASSIGN(const Value over, Evaluate(s.value.get()));
    EVOQ_ASSIGN(List items, Items(over, limits_));
    if (s.condition != nullptr) {
      List kept;
      for (Value& item : items) {
        scopes_.emplace_back();
        Status status = Assign(s.targets, item);
        Result<Value> holds = status ? Evaluate(s.condition.get())
                                     : Result<Value>(tl::unexpected<Error>(status.error()));
        scopes_.pop_back();
        if (!holds) return tl::unexpected<Error>(holds.error());
        if (holds->truth()) kept.push_back(std::move(item));
      }
      items = std::move(kept);
    }
    if (items.empty()) return Execute(s.otherwise);
    for (size_t i = 0; i < items.size(); ++i) {
      scopes_.emplace_back();
      Result<Flow> flow = Iteration(s, items, i);
      scopes_.pop_back();
      if (!flow) return flow;
      if (*flow == Flow::kBreak) break;
    }
    return Flow::kNext;
  }

  Result<Flow> Iteration(const Statement& s, const List& items, size_t i) {
    EVOQ_TRY(Assign(s.targets, items[i]));
    const size_t n = items.size();
    Dict loop = {
        {"index", i + 1},     {"index0", i},        {"revindex", n - i}, {"revindex0", n - i - 1},
        {"first", i == 0},    {"last", i + 1 == n}, {"length", n},       {"previtem", Value()},
        {"nextitem", Value()}};
    if (i > 0) loop[7].second = items[i - 1];
    if (i + 1 < n) loop[8].second = items[i + 1];
    scopes_.back()["loop"] = Value(std::move(loop));
    return Execute(s.body);
  }

  // ---- expressions

  const Value* Find(std::string_view name) const {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      if (const auto found = scope->find(name); found != scope->end()) return &found->second;
    }
    return nullptr;
  }

  Result<Value> Evaluate(const Expression* e) {
    if (e == nullptr) return Value();
    const Level level(depth_);
    EVOQ_TRY(At(Step(), e->line));
    return At(Evaluated(*e), e->line);
  }

  Result<Value> Evaluated(const Expression& e) {
    switch (e.op) {
      case Op::kConstant: return e.constant;
      case Op::kName: {
        if (const Value* value = Find(e.text)) return *value;
        if (Has(Functions(), e.text)) return Value(Function{e.text, nullptr});
        return Value(Undefined{e.text});
      }
      case Op::kList: {
        List list;
        for (const ExpressionPtr& arg : e.args) {
          EVOQ_ASSIGN(Value item, Evaluate(arg.get()));
          list.push_back(std::move(item));
        }
        return limits_.Made(std::move(list));
      }
      case Op::kDict: return MakeDict(e);
      case Op::kAttribute: {
        EVOQ_ASSIGN(const Value value, Evaluate(e.args[0].get()));
        return Member(value, e.text);
      }
      case Op::kIndex: {
        EVOQ_ASSIGN(const Value value, Evaluate(e.args[0].get()));
        EVOQ_ASSIGN(const Value index, Evaluate(e.args[1].get()));
        return Member(value, index);
      }
      case Op::kSlice: return Slice(e);
      case Op::kCall: return CallValue(e);
      case Op::kFilter: return RunRow(Filters(), "filter", e);
      case Op::kTest: return RunRow(Tests(), "test", e);
      case Op::kNot: {
        EVOQ_ASSIGN(const Value value, Evaluate(e.args[0].get()));
        return Value(!value.truth());
      }
      case Op::kAnd:
      case Op::kOr: {
        EVOQ_ASSIGN(const Value value, Evaluate(e.args[0].get()));
        return value.truth() == (e.op == Op::kOr) ? value : Evaluate(e.args[1].get());
      }
      case Op::kIf: {
        EVOQ_ASSIGN(const Value value, Evaluate(e.args[0].get()));
        return Evaluate(e.args[value.truth() ? 1 : 2].get());
      }
      case Op::kNegative: {
        EVOQ_ASSIGN(const Value value, Evaluate(e.args[0].get()));
        if (const auto* d = value.As<double>()) return Value(-*d);
        return Arithmetic("-", Value(0), value);
      }
      case Op::kBinary:
      case Op::kCompare: {
        EVOQ_ASSIGN(const Value left, Evaluate(e.args[0].get()));
        EVOQ_ASSIGN(const Value right, Evaluate(e.args[1].get()));
        return e.op == Op::kBinary ? Arithmetic(e.text, left, right)
                                   : Compared(e.text, left, right);
      }
    }
    return Value();
  }

  Result<Value> MakeDict(const Expression& e) {
    Dict dict;
    for (size_t i = 0; i + 1 < e.args.size(); i += 2) {
      EVOQ_ASSIGN(const Value key, Evaluate(e.args[i].get()));
      EVOQ_ASSIGN(Value value, Evaluate(e.args[i + 1].get()));
      dict.emplace_back(Text(key), std::move(value));
    }
    return limits_.Made(std::move(dict));
  }

  Result<Value> Slice(const Expression& e) {
    EVOQ_ASSIGN(const Value value, Evaluate(e.args[0].get()));
    EVOQ_ASSIGN(const Value from, Evaluate(e.args[1].get()));
    EVOQ_ASSIGN(const Value to, Evaluate(e.args[2].get()));
    EVOQ_ASSIGN(const Value by, Evaluate(e.args[3].get()));
    if (value.dict() != nullptr || value.undefined())
      return InvalidInput("a slice of a value of the type {}", value.type());
    EVOQ_ASSIGN(const List items, Items(value, limits_));
    const int64_t step = by.integer().value_or(1), n = static_cast<int64_t>(items.size());
    if (step == 0) return InvalidInput("a slice with a step of 0");
    const auto place = [&](const Value& v, int64_t fallback) {
      if (!v.integer()) return fallback;
      const int64_t i = *v.integer() < 0 ? std::max(*v.integer(), -n - 1) + n : *v.integer();
      return std::clamp<int64_t>(i, step < 0 ? -1 : 0, step < 0 ? n - 1 : n);
    };
    const int64_t begin = place(from, step < 0 ? n - 1 : 0), end = place(to, step < 0 ? -1 : n);
    List kept;
    for (int64_t i = begin; step > 0 ? i < end : i > end;) {
      kept.push_back(items[static_cast<size_t>(i)]);
      if (step > 0 ? step >= end - i : step <= end - i) break;  // i + step may overflow
      i += step;
    }
    if (value.string() == nullptr) return limits_.Made(std::move(kept));
    std::string text;
    for (const Value& c : kept) text += *c.string();
    return limits_.Made(std::move(text));
  }

  Result<Value> Arithmetic(std::string_view op, const Value& a, const Value& b) {
    if (op == "~") return limits_.Made(Text(a) + Text(b));
    if (op == "+" && a.string() && b.string()) {
      EVOQ_TRY(limits_.Make(a.string()->size() + b.string()->size()));
      return Value(*a.string() + *b.string());
    }
    if (op == "+" && a.list() && b.list()) {
      List joined = *a.list();
      joined.insert(joined.end(), b.list()->begin(), b.list()->end());
      return limits_.Made(std::move(joined));
    }
    if (op == "*" && (a.string() || b.string()) && (a.integer() || b.integer())) {
      const std::string& text = a.string() ? *a.string() : *b.string();
      const int64_t count = std::max<int64_t>(a.string() ? *b.integer() : *a.integer(), 0);
      if (text.empty()) return Value(text);
      if (count > Limits::kMaxBytes / static_cast<int64_t>(text.size()))
        return Fail(ErrorCode::kTooLarge, "a text of {} times {} bytes", count, text.size());
      EVOQ_TRY(limits_.Make(text.size() * static_cast<size_t>(count)));
      std::string repeated;
      for (int64_t i = 0; i < count; ++i) repeated += text;
      return Value(std::move(repeated));
    }
    if (a.integer() && b.integer() && op != "/" && op != "**")
      return Integers(op, *a.integer(), *b.integer());
    if (!a.number() || !b.number())
      return InvalidInput("{} {} {}: values that have no such operator", a.type(), op, b.type());
    return Numbers(op, a, b);
  }

  static Result<Value> Integers(std::string_view op, int64_t x, int64_t y) {
    int64_t result = 0;
    bool over = false;
    if (op == "+") {
      over = __builtin_add_overflow(x, y, &result);
    } else if (op == "-") {
      over = __builtin_sub_overflow(x, y, &result);
    } else if (op == "*") {
      over = __builtin_mul_overflow(x, y, &result);
    } else {
      if (y == 0) return InvalidInput("a division by 0");
      if (y == -1) {
        over = __builtin_sub_overflow(int64_t{0}, x, &result);
        if (op == "%") return Value(0);
      } else {  // to the smaller number, as Python has it
        const int64_t quotient = x / y - ((x % y != 0 && (x < 0) != (y < 0)) ? 1 : 0);
        result = op == "//" ? quotient : x - quotient * y;
      }
    }
    if (over) return Fail(ErrorCode::kTooLarge, "a number of more than 64 bits");
    return Value(result);
  }

  static Result<Value> Numbers(std::string_view op, const Value& a, const Value& b) {
    const double x = *a.number(), y = *b.number();
    if (op == "+") return Value(x + y);
    if (op == "-") return Value(x - y);
    if (op == "*") return Value(x * y);
    if (op == "**") {
      const double power = std::pow(x, y);
      const bool integers = a.integer() && b.integer() && y >= 0 && std::fabs(power) < 9e15;
      return integers ? Value(static_cast<int64_t>(power)) : Value(power);
    }
    if (y == 0) return InvalidInput("a division by 0");
    if (op == "/") return Value(x / y);
    const double floor = std::floor(x / y);
    return Value(op == "//" ? floor : x - floor * y);
  }

  Result<Value> Compared(std::string_view op, const Value& a, const Value& b) {
    if (op == "==" || op == "!=") return Value(Equal(a, b) == (op == "=="));
    if (op == "in" || op == "not in") {
      EVOQ_ASSIGN(const bool in, Contains(b, a));
      return Value(in == (op == "in"));
    }
    const auto order = Compare(a, b);
    if (!order) return InvalidInput("{} {} {}: values without an order", a.type(), op, b.type());
    if (op == "<") return Value(*order < 0);
    if (op == "<=") return Value(*order <= 0);
    return Value(op == ">" ? *order > 0 : *order >= 0);
  }

  Result<bool> Contains(const Value& whole, const Value& part) {
    if (const std::string* text = whole.string()) {
      if (part.string() == nullptr)
        return InvalidInput("{} in str: expected a text in a text", part.type());
      return text->find(*part.string()) != std::string::npos;
    }
    EVOQ_ASSIGN(const List items, Items(whole, limits_));
    return std::any_of(items.begin(), items.end(),
                       [&](const Value& item) { return Equal(item, part); });
  }

  // ---- calls

  struct Arguments {
    List args;
    Dict named;
  };
  // Those behind the first of `e`.
  Result<Arguments> EvaluateArguments(const Expression& e) {
    Arguments arguments;
    for (size_t i = 1; i < e.args.size(); ++i) {
      EVOQ_ASSIGN(Value value, Evaluate(e.args[i].get()));
      arguments.args.push_back(std::move(value));
    }
    for (const auto& [name, expression] : e.named) {
      EVOQ_ASSIGN(Value value, Evaluate(expression.get()));
      arguments.named.emplace_back(name, std::move(value));
    }
    return arguments;
  }

  Result<Value> RunRow(std::span<const Builtin> rows, const char* what, const Expression& e) {
    EVOQ_ASSIGN(const Value of, Evaluate(e.args[0].get()));
    EVOQ_ASSIGN(Arguments arguments, EvaluateArguments(e));
    return chat::Run(rows, what, e.text,
                     {of, std::move(arguments.args), std::move(arguments.named), limits_});
  }

  Result<Value> CallValue(const Expression& e) {
    const Expression& callee = *e.args[0];
    if (callee.op == Op::kAttribute) {
      EVOQ_ASSIGN(const Value of, Evaluate(callee.args[0].get()));
      const Value* member = of.dict() != nullptr ? chat::Find(*of.dict(), callee.text) : nullptr;
      const bool own = member != nullptr && member->As<Function>() != nullptr;
      if (!own) {
        if (of.undefined())
          return InvalidInput("{} is undefined, so it has no {}", of.As<Undefined>()->name,
                              callee.text);
        EVOQ_ASSIGN(Arguments arguments, EvaluateArguments(e));
        return chat::Run(Methods(), "method", callee.text,
                         {of, std::move(arguments.args), std::move(arguments.named), limits_});
      }
    }
    EVOQ_ASSIGN(const Value value, Evaluate(&callee));
    const Function* function = value.As<Function>();
    if (function == nullptr) {
      if (value.undefined() && callee.op == Op::kName && Has(HiddenFunctions(), callee.text))
        return RunHidden(value, e);
      if (value.undefined())
        return Unsupported("{} is undefined, so it cannot be called", value.As<Undefined>()->name);
      return InvalidInput("a value of the type {} cannot be called", value.type());
    }
    EVOQ_ASSIGN(Arguments arguments, EvaluateArguments(e));
    if (function->macro != nullptr) return CallMacro(*function->macro, std::move(arguments));
    return chat::Run(Functions(), "function", function->name,
                     {value, std::move(arguments.args), std::move(arguments.named), limits_});
  }

  Result<Value> RunHidden(const Value& value, const Expression& e) {
    EVOQ_ASSIGN(Arguments arguments, EvaluateArguments(e));
    return chat::Run(HiddenFunctions(), "function", e.args[0]->text,
                     {value, std::move(arguments.args), std::move(arguments.named), limits_});
  }

  // A macro sees the outermost variables and its own.
  Result<Value> CallMacro(const Macro& macro, Arguments arguments) {
    if (arguments.args.size() > macro.parameters.size())
      return InvalidInput("the macro {} has {} arguments, expected at most {}", macro.name,
                          arguments.args.size(), macro.parameters.size());
    Scope scope;
    for (size_t i = 0; i < macro.parameters.size(); ++i) {
      const std::string& name = macro.parameters[i];
      const Value* named = chat::Find(arguments.named, name);
      if (i < arguments.args.size()) {
        scope[name] = arguments.args[i];
      } else if (named != nullptr) {
        scope[name] = *named;
      } else if (macro.defaults[i] != nullptr) {
        EVOQ_ASSIGN(scope[name], Evaluate(macro.defaults[i].get()));
      } else {
        scope[name] = Undefined{name};
      }
    }
    std::vector<Scope> inner;
    inner.push_back(std::move(scopes_[0]));
    inner.push_back(std::move(scope));
    std::swap(scopes_, inner);
    Result<std::string> text = Captured([&] { return Execute(macro.body); });
    std::swap(scopes_, inner);
    scopes_[0] = std::move(inner[0]);
    if (!text) return tl::unexpected<Error>(text.error());
    return Value(std::move(*text));
  }

  Limits limits_;
  std::string out_;
  std::vector<Scope> scopes_;
  int depth_ = 0;
};

}  // namespace

Result<std::string> Render(const Block& block, const Dict& variables) {
  return Renderer(variables).Run(block);
}

}  // namespace evoq::chat
