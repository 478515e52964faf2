#include "tokenizer/template/builtins.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <ctime>
#include <optional>

#include "tokenizer/unicode.h"

namespace evoq::chat {
namespace {

constexpr int64_t kMaxRange = 100'000;  // as Jinja's sandbox
constexpr int64_t kMaxBound = int64_t{1} << 40;

// ---- what several rows share

// What str.isspace() is true of.
bool IsBlank(uint32_t code) { return IsSpace(code) || (code >= 0x1C && code <= 0x1F); }

std::string Strip(std::string_view text, const Value& characters, bool left, bool right) {
  const std::string* set = characters.string();
  const auto in_set = [&](uint32_t code, std::string_view bytes) {
    return set != nullptr ? set->find(bytes) != std::string::npos : IsBlank(code);
  };
  size_t begin = text.size(), end = 0, at = 0;
  ForEachCharacter(text, [&](uint32_t code, std::string_view bytes) {
    if (!in_set(code, bytes)) {
      begin = std::min(begin, at);
      end = at + bytes.size();
    }
    at += bytes.size();
  });
  if (begin >= end) {  // all of it is in the set
    return left || right ? "" : std::string(text);
  }
  return std::string(
      text.substr(left ? begin : 0, (right ? end : text.size()) - (left ? begin : 0)));
}

int ToUpper(int c) { return c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c; }

std::string Capitalized(std::string text) {
  text = Lowercase(text);
  const size_t first = text.empty() ? 0 : NextCharacter(text, 0).bytes;
  return Uppercase(text.substr(0, first)) + text.substr(first);
}

Result<Value> WrongType(const Value& value, const char* wanted) {
  return InvalidInput("a value of the type {}, expected {}", value.type(), wanted);
}

Result<std::string> NeedText(const Value& value) {
  if (value.string() == nullptr)
    return InvalidInput("a value of the type {}, expected str", value.type());
  return *value.string();
}

// How often at most; below 0: without an end.
int64_t AtMost(const Value& limit) { return std::max<int64_t>(limit.integer().value_or(-1), -1); }

// ---- filters and methods of texts

Result<Value> Trim(const Call& c) {
  return c.limits.Made(Strip(Text(c.of), c.Get(0, "chars"), true, true));
}
Result<Value> StripBoth(const Call& c) {
  return c.limits.Made(Strip(Text(c.of), c.Get(0, "chars"), true, true));
}
Result<Value> StripLeft(const Call& c) {
  return c.limits.Made(Strip(Text(c.of), c.Get(0, "chars"), true, false));
}
Result<Value> StripRight(const Call& c) {
  return c.limits.Made(Strip(Text(c.of), c.Get(0, "chars"), false, true));
}
Result<Value> Upper(const Call& c) { return c.limits.Made(Uppercase(Text(c.of))); }
Result<Value> Lower(const Call& c) { return c.limits.Made(Lowercase(Text(c.of))); }
Result<Value> Capitalize(const Call& c) { return c.limits.Made(Capitalized(Text(c.of))); }

// Jinja's: words begin behind blanks and -({[<.
Result<Value> TitleFilter(const Call& c) {
  std::string out;
  bool begins = true;
  ForEachCharacter(Text(c.of), [&](uint32_t code, std::string_view character) {
    const std::string one(character);
    const bool between =
        IsBlank(code) || (one.size() == 1 && std::string_view("-({[<").find(one) != one.npos);
    out += begins ? Uppercase(one) : Lowercase(one);
    begins = between;
  });
  return c.limits.Made(std::move(out));
}

// Python's: words are of letters alone.
Result<Value> Title(const Call& c) {
  std::string text = Lowercase(Text(c.of));
  bool begins = true;
  for (char& letter : text) {
    if (begins) letter = static_cast<char>(ToUpper(letter));
    const bool word = (letter & 0x80) != 0 || std::isalpha(static_cast<unsigned char>(letter)) != 0;
    begins = !word;
  }
  return c.limits.Made(std::move(text));
}

Result<Value> Replace(const Call& c) {
  EVOQ_ASSIGN(const std::string from, NeedText(c.Get(0, "old")));
  EVOQ_ASSIGN(const std::string to, NeedText(c.Get(1, "new")));
  int64_t count = AtMost(c.Get(2, "count"));
  const std::string text = Text(c.of);
  std::string out;
  size_t at = 0;
  while (count != 0) {
    const size_t place = from.empty() ? std::string::npos : text.find(from, at);
    if (place == std::string::npos) break;
    EVOQ_TRY(c.limits.Make(place - at + to.size()));
    out += text.substr(at, place - at) + to;
    at = place + from.size();
    --count;
  }
  out += text.substr(at);
  return c.limits.Made(std::move(out));
}

template <bool begin>
Result<Value> HasEnd(const Call& c) {
  const std::string text = Text(c.of);
  const Value part = c.Get(0, "");
  const auto has = [&](const std::string& end) {
    return begin ? text.starts_with(end) : text.ends_with(end);
  };
  if (part.list() != nullptr) {
    for (const Value& one : *part.list()) {
      if (one.string() != nullptr && has(*one.string())) return Value(true);
    }
    return Value(false);
  }
  EVOQ_ASSIGN(const std::string end, NeedText(part));
  return Value(has(end));
}

Result<Value> Find(const Call& c) {
  EVOQ_ASSIGN(const std::string part, NeedText(c.Get(0, "")));
  const std::string text = Text(c.of);
  const size_t place = text.find(part);
  if (place == std::string::npos) return Value(-1);
  int64_t characters = 0;
  ForEachCharacter(std::string_view(text).substr(0, place),
                   [&](uint32_t, std::string_view) { ++characters; });
  return Value(characters);
}

Result<Value> Count(const Call& c) {
  EVOQ_ASSIGN(const std::string part, NeedText(c.Get(0, "")));
  const std::string text = Text(c.of);
  int64_t count = 0;
  for (size_t at = 0; !part.empty() && (at = text.find(part, at)) != std::string::npos;
       at += part.size())
    ++count;
  return Value(count);
}

// By a separator; without one, by runs of white space.
Result<Value> Split(const Call& c) {
  const std::string text = Text(c.of);
  const Value separator = c.Get(0, "sep", nullptr);
  int64_t left = AtMost(c.Get(1, "maxsplit"));
  List parts;
  const auto add = [&](std::string_view part) {
    parts.push_back(part);
    return c.limits.Make(part.size() + sizeof(Value));
  };
  if (separator.string() != nullptr) {
    if (separator.string()->empty()) return InvalidInput("split: an empty separator");
    size_t at = 0;
    for (; left != 0; --left) {
      const size_t place = text.find(*separator.string(), at);
      if (place == std::string::npos) break;
      EVOQ_TRY(add(std::string_view(text).substr(at, place - at)));
      at = place + separator.string()->size();
    }
    EVOQ_TRY(add(std::string_view(text).substr(at)));
    return c.limits.Made(std::move(parts));
  }
  // Where the run of blanks, or of others, that begins at `at` ends.
  const auto run_end = [&](size_t at, bool blank) {
    while (at < text.size()) {
      const CharacterAt character = NextCharacter(text, at);
      if (IsBlank(character.code) != blank) break;
      at += character.bytes;
    }
    return at;
  };
  for (size_t at = run_end(0, true); at < text.size(); --left) {
    const size_t end = left == 0 ? text.size() : run_end(at, false);
    EVOQ_TRY(add(std::string_view(text).substr(at, end - at)));
    at = run_end(end, true);
  }
  return c.limits.Made(std::move(parts));
}

Result<Value> SplitLines(const Call& c) {
  List parts;
  const std::string text = Text(c.of);
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    parts.push_back(std::string_view(text).substr(at, end - at));
    at = end + 1;
  }
  return c.limits.Made(std::move(parts));
}

// ---- filters and methods of lists and dicts

Result<Value> Length(const Call& c) {
  if (const auto* s = c.of.string()) {
    int64_t characters = 0;
    ForEachCharacter(*s, [&](uint32_t, std::string_view) { ++characters; });
    return Value(characters);
  }
  if (c.of.list() != nullptr) return Value(c.of.list()->size());
  if (c.of.dict() != nullptr) return Value(c.of.dict()->size());
  if (c.of.undefined()) return Value(0);
  return WrongType(c.of, "str, list or dict");
}

Result<Value> JoinTexts(const List& items, const std::string& separator, Limits& limits) {
  std::string out;
  for (size_t i = 0; i < items.size(); ++i) {
    const std::string text = Text(items[i]);
    EVOQ_TRY(limits.Make((i > 0 ? separator.size() : 0) + text.size()));
    if (i > 0) out += separator;
    out += text;
  }
  return Value(std::move(out));
}

Result<Value> Join(const Call& c) {
  EVOQ_ASSIGN(List items, Items(c.of, c.limits));
  const Value attribute = c.Get(1, "attribute");
  if (!attribute.undefined()) {
    for (Value& item : items) {
      EVOQ_ASSIGN(item, Member(item, attribute));
    }
  }
  return JoinTexts(items, Text(c.Get(0, "d", "")), c.limits);
}

// Of a text: text.join(list).
Result<Value> JoinBy(const Call& c) {
  EVOQ_ASSIGN(const List items, Items(c.Get(0, ""), c.limits));
  return JoinTexts(items, Text(c.of), c.limits);
}

Result<Value> First(const Call& c) {
  EVOQ_ASSIGN(const List items, Items(c.of, c.limits));
  return items.empty() ? Value() : items.front();
}
Result<Value> Last(const Call& c) {
  EVOQ_ASSIGN(const List items, Items(c.of, c.limits));
  return items.empty() ? Value() : items.back();
}
Result<Value> ToList(const Call& c) {
  EVOQ_ASSIGN(List items, Items(c.of, c.limits));
  return c.limits.Made(std::move(items));
}
Result<Value> Reverse(const Call& c) {
  EVOQ_ASSIGN(List items, Items(c.of, c.limits));
  std::reverse(items.begin(), items.end());
  return c.of.string() != nullptr ? JoinTexts(items, "", c.limits)
                                  : c.limits.Made(std::move(items));
}

Result<Value> DictItems(const Call& c) {
  if (c.of.undefined()) return Value(List());
  if (c.of.dict() == nullptr) return WrongType(c.of, "dict");
  List items;
  for (const auto& [key, value] : *c.of.dict()) items.push_back(List{Value(key), value});
  return c.limits.Made(std::move(items));
}

Result<Value> DictSort(const Call& c) {
  EVOQ_ASSIGN(const Value value, DictItems(c));
  std::vector<std::pair<std::string, size_t>> order;
  for (const Value& item : *value.list())
    order.emplace_back(Lowercase(Text((*item.list())[0])), order.size());
  std::sort(order.begin(), order.end());
  List items;
  for (const auto& [key, place] : order) items.push_back((*value.list())[place]);
  return c.limits.Made(std::move(items));
}

template <int part>
Result<Value> DictPart(const Call& c) {
  if (c.of.dict() == nullptr) return WrongType(c.of, "dict");
  List items;
  for (const auto& [key, value] : *c.of.dict()) items.push_back(part == 0 ? Value(key) : value);
  return c.limits.Made(std::move(items));
}

Result<Value> DictGet(const Call& c) {
  if (c.of.dict() == nullptr) return WrongType(c.of, "dict");
  const Value* value = chat::Find(*c.of.dict(), Text(c.Get(0, "key")));
  return value != nullptr ? *value : c.Get(1, "default", nullptr);
}

// map(attribute=NAME) or map(FILTER)
Result<Value> Map(const Call& c) {
  EVOQ_ASSIGN(List items, Items(c.of, c.limits));
  const Value attribute = c.Get(9, "attribute");
  for (Value& item : items) {
    EVOQ_TRY(c.limits.Step());
    if (!attribute.undefined()) {
      EVOQ_ASSIGN(Value member, Member(item, attribute));
      item = member.undefined() ? c.Get(9, "default") : member;
    } else {
      const Value of = item;
      const List rest(c.args.begin() + (c.args.empty() ? 0 : 1), c.args.end());
      EVOQ_ASSIGN(item,
                  Run(Filters(), "filter", Text(c.Get(0, "filter")), Call{of, rest, {}, c.limits}));
    }
  }
  return c.limits.Made(std::move(items));
}

// select(TEST, ...), selectattr(NAME, TEST, ...); without a test: what is true.
template <bool by_attribute, bool wanted>
Result<Value> Select(const Call& c) {
  EVOQ_ASSIGN(const List items, Items(c.of, c.limits));
  const size_t test = by_attribute ? 1 : 0;
  List kept;
  for (const Value& item : items) {
    EVOQ_TRY(c.limits.Step());
    Value of = item;
    if (by_attribute) {
      EVOQ_ASSIGN(of, Member(item, c.Get(0, "attribute")));
    }
    bool holds = of.truth();
    if (c.args.size() > test) {
      const List rest(c.args.begin() + static_cast<ptrdiff_t>(test) + 1, c.args.end());
      EVOQ_ASSIGN(const Value result,
                  Run(Tests(), "test", Text(c.args[test]), Call{of, rest, {}, c.limits}));
      holds = result.truth();
    }
    if (holds == wanted) kept.push_back(item);
  }
  return c.limits.Made(std::move(kept));
}

// ---- other filters

Result<Value> Default(const Call& c) {
  const bool also_false = c.Get(1, "boolean", false).truth();
  return c.of.undefined() || (also_false && !c.of.truth()) ? c.Get(0, "default_value", "") : c.of;
}

// transformers' own, whose arguments are not in the order of Jinja's.
Result<Value> Json(const Call& c) {
  const Value indent = c.Get(1, "indent");
  const int64_t spaces = indent.integer().value_or(-1);
  if (spaces > 64) return InvalidInput("tojson: an indent of {}, expected at most 64", spaces);
  // Blanks before each item, at most: they are in no value's weight.
  if (spaces > 0) {
    const auto items = static_cast<size_t>(c.of.weight()) / sizeof(Value) + 1;
    EVOQ_TRY(c.limits.Make(items * static_cast<size_t>(spaces * c.of.depth())));
  }
  JsonStyle style{.indent = static_cast<int>(std::max<int64_t>(spaces, -1)),
                  .sorted = c.Get(3, "sort_keys", false).truth(),
                  .ascii = c.Get(0, "ensure_ascii", false).truth()};
  if (spaces >= 0) style.comma = ",";
  if (const Value given = c.Get(2, "separators"); given.list() != nullptr) {
    const List& both = *given.list();
    constexpr size_t kMostBytes = 16;
    for (const Value& one : both) {
      if (one.string() == nullptr || one.string()->size() > kMostBytes || both.size() != 2)
        return InvalidInput("tojson: separators {}, expected two short texts", Repr(given));
    }
    if (both.size() == 2) style.comma = *both[0].string(), style.colon = *both[1].string();
    const auto items = static_cast<size_t>(c.of.weight()) / sizeof(Value) + 1;
    EVOQ_TRY(c.limits.Make(items * 2 * kMostBytes));
  }
  return c.limits.Made(ToJson(c.of, style));
}

Result<Value> ToText(const Call& c) { return c.limits.Made(Text(c.of)); }

// What a text says, blanks around it aside.
template <typename T>
std::optional<T> Parsed(const Value& of) {
  if (of.string() == nullptr) return std::nullopt;
  const std::string text = Strip(*of.string(), {}, true, true);
  T value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<double> AsFloat(const Value& of) {
  return of.number() ? of.number() : Parsed<double>(of);
}

Result<Value> ToInteger(const Call& c) {
  if (const auto integer = c.of.integer()) return Value(*integer);
  if (const auto integer = Parsed<int64_t>(c.of)) return Value(*integer);
  if (const auto number = AsFloat(c.of); number && std::fabs(*number) < 9e18)
    return Value(static_cast<int64_t>(*number));
  return c.Get(0, "default", 0);
}

Result<Value> ToFloat(const Call& c) {
  const auto number = AsFloat(c.of);
  return number ? Value(*number) : c.Get(0, "default", 0.0);
}

Result<Value> Absolute(const Call& c) {
  if (const auto* d = c.of.As<double>()) return Value(std::fabs(*d));
  const auto i = c.of.integer();
  if (!i || *i == INT64_MIN) return WrongType(c.of, "a number");
  return Value(*i < 0 ? -*i : *i);
}

Result<Value> Indent(const Call& c) {
  const Value width = c.Get(0, "width", 4);
  const int64_t spaces = std::clamp<int64_t>(width.integer().value_or(4), 0, 256);
  const bool first = c.Get(1, "first", false).truth(), blank = c.Get(2, "blank", false).truth();
  const std::string text = Text(c.of), space(static_cast<size_t>(spaces), ' ');
  std::string out;
  for (size_t at = 0, line = 0; at <= text.size(); ++line) {
    const size_t end = std::min(text.find('\n', at), text.size());
    EVOQ_TRY(c.limits.Make(space.size() + end - at));
    if (line > 0) out += '\n';
    if (line == 0 ? first : (blank || end > at)) out += space;
    out += text.substr(at, end - at);
    at = end + 1;
  }
  return c.limits.Made(std::move(out));
}

Result<Value> Same(const Call& c) { return c.of; }

// ---- tests

template <typename... Types>
Result<Value> IsA(const Call& c) {
  return Value(((c.of.As<Types>() != nullptr) || ...));
}
Result<Value> IsDefined(const Call& c) { return Value(!c.of.undefined()); }
Result<Value> IsMapping(const Call& c) { return Value(c.of.dict() != nullptr); }
Result<Value> IsIterable(const Call& c) {
  return Value(c.of.list() != nullptr || c.of.dict() != nullptr || c.of.string() != nullptr ||
               c.of.undefined());
}
template <bool wanted>
Result<Value> IsBool(const Call& c) {
  const auto* b = c.of.As<bool>();
  return Value(b != nullptr && *b == wanted);
}
template <int rest>
Result<Value> IsParity(const Call& c) {
  const auto i = c.of.integer();
  if (!i) return WrongType(c.of, "int");
  return Value(std::abs(*i % 2) == rest);
}
Result<Value> IsDivisible(const Call& c) {
  const auto i = c.of.integer(), by = c.Get(0, "num").integer();
  if (!i || !by || *by == 0) return InvalidInput("divisibleby: expected numbers, not by 0");
  return Value(*by == -1 || *i % *by == 0);
}
template <bool wanted>
Result<Value> IsEqual(const Call& c) {
  return Value(Equal(c.of, c.Get(0, "other")) == wanted);
}
template <bool less, bool equal>
Result<Value> IsOrdered(const Call& c) {
  const auto order = Compare(c.of, c.Get(0, "other"));
  if (!order) return WrongType(c.of, "a value with an order");
  return Value(*order == 0 ? equal : (*order < 0) == less);
}
Result<Value> IsIn(const Call& c) {
  EVOQ_ASSIGN(const List items, Items(c.Get(0, "seq"), c.limits));
  return Value(std::any_of(items.begin(), items.end(),
                           [&](const Value& item) { return Equal(item, c.of); }));
}
Result<Value> IsCallable(const Call& c) { return Value(c.of.As<Function>() != nullptr); }

// ---- functions

Result<Value> Range(const Call& c) {
  int64_t from = 0, to = 0, step = 1;
  if (c.args.empty()) return InvalidInput("range: no arguments");
  for (const Value& value : c.args) {
    const auto i = value.integer();
    if (!i || *i < -kMaxBound || *i > kMaxBound)
      return InvalidInput("range: expected numbers of at most 40 bits");
  }
  to = *c.args[c.args.size() > 1 ? 1 : 0].integer();
  if (c.args.size() > 1) from = *c.args[0].integer();
  if (c.args.size() > 2) step = *c.args[2].integer();
  if (step == 0) return InvalidInput("range: a step of 0");
  if ((to - from) / step > kMaxRange)
    return Fail(ErrorCode::kTooLarge, "range: more than {} numbers", kMaxRange);
  List list;
  for (int64_t i = from; step > 0 ? i < to : i > to; i += step) list.push_back(i);
  return c.limits.Made(std::move(list));
}

Dict Members(const Call& c) {
  Dict dict = c.args.size() == 1 && c.args[0].dict() != nullptr ? *c.args[0].dict() : Dict();
  for (const auto& [key, value] : c.named) Put(dict, key, value);
  return dict;
}

Result<Value> MakeDict(const Call& c) { return c.limits.Made(Members(c)); }

Result<Value> MakeNamespace(const Call& c) {
  EVOQ_ASSIGN(const Value members, MakeDict(c));
  if (members.holds_namespace()) return Unsupported("a namespace in a namespace");
  return Value(std::make_shared<Namespace>(Namespace{*members.dict()}));
}

Result<Value> Raise(const Call& c) {
  return Fail(ErrorCode::kConditionFailed, "the template says: {}", Text(c.Get(0, "message")));
}

// The day and the time, in the machine's zone.
Result<Value> Now(const Call& c) {
  EVOQ_ASSIGN(const std::string format, NeedText(c.Get(0, "format")));
  if (format.empty()) return Value("");
  const std::time_t now = std::time(nullptr);
  std::tm parts = {};
  localtime_r(&now, &parts);
  std::array<char, 1000> text;
  const size_t bytes = std::strftime(text.data(), text.size(), format.c_str(), &parts);
  if (bytes == 0) return InvalidInput("strftime_now: a text of more than {} bytes", text.size());
  return c.limits.Made(std::string(text.data(), bytes));
}

constexpr Builtin kFilters[] = {
    {"trim", 1, Trim, "chars"},
    {"upper", 0, Upper},
    {"lower", 0, Lower},
    {"capitalize", 0, Capitalize},
    {"title", 0, TitleFilter},
    {"replace", 3, Replace, "old new count"},
    {"indent", 3, Indent, "width first blank"},
    {"length", 0, Length},
    {"count", 0, Length},
    {"join", 2, Join, "d attribute"},
    {"first", 0, First},
    {"last", 0, Last},
    {"list", 0, ToList},
    {"reverse", 0, Reverse},
    {"items", 0, DictItems},
    {"dictsort", 0, DictSort},
    {"map", 9, Map, "attribute default"},
    {"select", 9, Select<false, true>},
    {"reject", 9, Select<false, false>},
    {"selectattr", 9, Select<true, true>},
    {"rejectattr", 9, Select<true, false>},
    {"default", 2, Default, "default_value boolean"},
    {"d", 2, Default, "default_value boolean"},
    {"tojson", 4, Json, "ensure_ascii indent separators sort_keys"},
    {"string", 0, ToText},
    {"int", 1, ToInteger, "default"},
    {"float", 1, ToFloat, "default"},
    {"abs", 0, Absolute},
    {"safe", 0, Same},
};

constexpr Builtin kTests[] = {
    {"defined", 0, IsDefined},
    {"undefined", 0, IsA<Undefined>},
    {"none", 0, IsA<std::nullptr_t>},
    {"string", 0, IsA<std::string>},
    {"number", 0, IsA<int64_t, double, bool>},
    {"integer", 0, IsA<int64_t>},
    {"float", 0, IsA<double>},
    {"boolean", 0, IsA<bool>},
    {"mapping", 0, IsMapping},
    {"sequence", 0, IsIterable},
    {"iterable", 0, IsIterable},
    {"callable", 0, IsCallable},
    {"true", 0, IsBool<true>},
    {"false", 0, IsBool<false>},
    {"odd", 0, IsParity<1>},
    {"even", 0, IsParity<0>},
    {"divisibleby", 1, IsDivisible},
    {"in", 1, IsIn},
    {"eq", 1, IsEqual<true>},
    {"equalto", 1, IsEqual<true>},
    {"ne", 1, IsEqual<false>},
    {"lt", 1, IsOrdered<true, false>},
    {"le", 1, IsOrdered<true, true>},
    {"gt", 1, IsOrdered<false, false>},
    {"ge", 1, IsOrdered<false, true>},
};

constexpr Builtin kMethods[] = {
    {"strip", 1, StripBoth, "chars"},
    {"lstrip", 1, StripLeft, "chars"},
    {"rstrip", 1, StripRight, "chars"},
    {"startswith", 1, HasEnd<true>},
    {"endswith", 1, HasEnd<false>},
    {"split", 2, Split, "sep maxsplit"},
    {"splitlines", 0, SplitLines},
    {"replace", 3, Replace, "old new count"},
    {"upper", 0, Upper},
    {"lower", 0, Lower},
    {"capitalize", 0, Capitalize},
    {"title", 0, Title},
    {"find", 1, Find},
    {"count", 1, Count},
    {"join", 1, JoinBy},
    {"get", 2, DictGet, "default"},
    {"items", 0, DictItems},
    {"keys", 0, DictPart<0>},
    {"values", 0, DictPart<1>},
};

constexpr Builtin kFunctions[] = {
    {"range", 3, Range},
    {"namespace", 1, MakeNamespace, "*"},
    {"dict", 1, MakeDict, "*"},
    {"raise_exception", 1, Raise, "message"},
};

constexpr Builtin kHiddenFunctions[] = {
    {"strftime_now", 1, Now, "format"},
};

}  // namespace

std::span<const Builtin> Filters() { return kFilters; }
std::span<const Builtin> Tests() { return kTests; }
std::span<const Builtin> Methods() { return kMethods; }
std::span<const Builtin> Functions() { return kFunctions; }
std::span<const Builtin> HiddenFunctions() { return kHiddenFunctions; }

bool Has(std::span<const Builtin> rows, std::string_view name) {
  return std::any_of(rows.begin(), rows.end(),
                     [&](const Builtin& row) { return name == row.name; });
}

Result<Value> Run(std::span<const Builtin> rows, const char* what, std::string_view name,
                  const Call& call) {
  for (const Builtin& row : rows) {
    if (name != row.name) continue;
    if (call.args.size() > row.most)
      return InvalidInput("the {} {} has {} arguments, expected at most {}", what, name,
                          call.args.size(), row.most);
    for (const auto& [given, value] : call.named) {
      const std::string names = fmt::format(" {} ", row.named);
      if (names != " * " && names.find(fmt::format(" {} ", given)) == std::string::npos)
        return Unsupported("the {} {} with {}=", what, name, given);
    }
    return row.run(call);
  }
  return Unsupported("the {} {}", what, name);
}

Value Call::Get(size_t i, std::string_view name, Value fallback) const {
  if (i < args.size()) return args[i];
  const Value* value = name.empty() ? nullptr : chat::Find(named, name);
  return value != nullptr ? *value : fallback;
}

Status Limits::Step() {
  if (++steps_ > kMaxSteps)
    return Fail(ErrorCode::kTooLarge, "more than {} steps of work", kMaxSteps);
  return {};
}

Status Limits::Make(size_t bytes) {
  if (static_cast<int64_t>(bytes) > kMaxBytes - bytes_)
    return Fail(ErrorCode::kTooLarge, "texts of more than {} bytes", kMaxBytes);
  bytes_ += static_cast<int64_t>(bytes);
  return {};
}

Result<Value> Limits::Made(std::string text) {
  EVOQ_TRY(Make(text.size()));
  return Value(std::move(text));
}

Result<Value> Limits::Made(List list) {
  EVOQ_TRY(Make(list.size() * sizeof(Value)));
  return Checked(std::move(list));
}

Result<Value> Limits::Made(Dict dict) {
  EVOQ_TRY(Make(dict.size() * sizeof(Dict::value_type)));
  return Checked(std::move(dict));
}

Result<Value> Limits::Checked(Value value) {
  if (value.depth() > kMaxDepth)
    return Fail(ErrorCode::kTooLarge, "a value nested deeper than {} levels", kMaxDepth);
  if (value.weight() > kMaxWeight)
    return Fail(ErrorCode::kTooLarge, "a value of more than {} bytes", kMaxWeight);
  return value;
}

Result<Value> Member(const Value& value, const Value& index) {
  if (const Dict* dict = value.dict()) {
    const Value* member = index.string() != nullptr ? chat::Find(*dict, *index.string()) : nullptr;
    return member != nullptr ? *member : Value(Undefined{Text(index)});
  }
  const auto i = index.integer();
  if (const List* list = value.list(); list != nullptr && i) {
    const auto size = static_cast<int64_t>(list->size());
    const int64_t place = *i < 0 ? *i + size : *i;
    return place >= 0 && place < size ? (*list)[static_cast<size_t>(place)] : Value();
  }
  if (const std::string* text = value.string(); text != nullptr && i) {
    int64_t place = *i;
    if (place < 0) {
      ForEachCharacter(*text, [&](uint32_t, std::string_view) { ++place; });
    }
    Value found;
    ForEachCharacter(*text, [&](uint32_t, std::string_view c) {
      if (place-- == 0) found = c;
    });
    return found;
  }
  if (value.undefined())
    return InvalidInput("{} is undefined, so it has no {}", value.As<Undefined>()->name,
                        Repr(index));
  return Value(Undefined{Text(index)});
}

Result<List> Items(const Value& value, Limits& limits) {
  if (value.undefined()) return List();
  List items;
  if (value.list() != nullptr) {
    items = *value.list();
  } else if (value.dict() != nullptr) {
    for (const auto& [key, item] : *value.dict()) items.push_back(key);
  } else if (value.string() != nullptr) {
    ForEachCharacter(*value.string(), [&](uint32_t, std::string_view c) { items.push_back(c); });
  } else {
    return InvalidInput("a value of the type {}, expected a list", value.type());
  }
  EVOQ_TRY(limits.Make(items.size() * sizeof(Value)));
  return items;
}

}  // namespace evoq::chat
