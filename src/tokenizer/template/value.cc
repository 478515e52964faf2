#include "tokenizer/template/value.h"

#include <cmath>

#include "tokenizer/unicode.h"

namespace evoq::chat {
namespace {

template <typename... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};

// As Python writes a float: the shortest digits that are it, with a point.
std::string FloatText(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string QuotedJson(const std::string& text, bool ascii) {
  return nlohmann::json(text).dump(-1, ' ', ascii, nlohmann::json::error_handler_t::replace);
}

std::string QuotedRepr(const std::string& text) {
  const char quote =
      text.find('\'') != std::string::npos && text.find('"') == std::string::npos ? '"' : '\'';
  std::string out(1, quote);
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '\\' || c == quote) {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out + quote;
}

}  // namespace

const List* Value::list() const {
  const auto* list = As<std::shared_ptr<const List>>();
  return list == nullptr ? nullptr : list->get();
}

const Dict* Value::dict() const {
  if (const Namespace* members = space()) return &members->members;
  const auto* dict = As<std::shared_ptr<const Dict>>();
  return dict == nullptr ? nullptr : dict->get();
}

Namespace* Value::space() const {
  const auto* members = As<std::shared_ptr<Namespace>>();
  return members == nullptr ? nullptr : members->get();
}

void Value::Contain(const Value& member) {
  depth_ = std::max(depth_, member.depth_ + 1);
  weight_ = std::min(weight_ + member.weight(), int64_t{1} << 60);
  holds_namespace_ = holds_namespace_ || member.holds_namespace();
}

Value::Value(List list) {
  for (const Value& item : list) Contain(item);
  data_ = std::make_shared<const List>(std::move(list));
}

Value::Value(Dict dict) {
  for (const auto& [key, item] : dict) {
    Contain(item);
    weight_ += static_cast<int64_t>(key.size() + sizeof(Value));
  }
  data_ = std::make_shared<const Dict>(std::move(dict));
}

int64_t Value::weight() const {
  const auto own = static_cast<int64_t>(sizeof(Value) + (string() ? string()->size() : 0));
  return weight_ + own;
}

std::optional<int64_t> Value::integer() const {
  if (const auto* i = As<int64_t>()) return *i;
  if (const auto* b = As<bool>()) return *b ? 1 : 0;
  return std::nullopt;
}

std::optional<double> Value::number() const {
  if (const auto* d = As<double>()) return *d;
  const auto i = integer();
  return i ? std::optional(static_cast<double>(*i)) : std::nullopt;
}

bool Value::truth() const {
  if (const auto n = number()) return *n != 0;
  if (const auto* s = string()) return !s->empty();
  if (const auto* l = list()) return !l->empty();
  if (const auto* d = dict()) return !d->empty();
  return As<Function>() != nullptr;
}

const char* Value::type() const {
  return std::visit(Overloaded{[](const Undefined&) { return "undefined"; },
                               [](std::nullptr_t) { return "none"; }, [](bool) { return "bool"; },
                               [](int64_t) { return "int"; }, [](double) { return "float"; },
                               [](const std::string&) { return "str"; },
                               [](const std::shared_ptr<const List>&) { return "list"; },
                               [](const std::shared_ptr<const Dict>&) { return "dict"; },
                               [](const std::shared_ptr<Namespace>&) { return "namespace"; },
                               [](const Function&) { return "function"; }},
                    data_);
}

const Value* Find(const Dict& dict, std::string_view key) {
  for (const auto& [name, value] : dict) {
    if (name == key) return &value;
  }
  return nullptr;
}

bool Put(Dict& dict, const std::string& key, const Value& value) {
  for (auto& [name, member] : dict) {
    if (name != key) continue;
    member = value;
    return false;
  }
  dict.emplace_back(key, value);
  return true;
}

bool Equal(const Value& a, const Value& b) {
  if (a.number() && b.number()) return *a.number() == *b.number();
  if (a.string() && b.string()) return *a.string() == *b.string();
  if (a.list() && b.list()) {
    return std::equal(a.list()->begin(), a.list()->end(), b.list()->begin(), b.list()->end(),
                      Equal);
  }
  if (a.space() || b.space()) return a.space() == b.space();
  if (a.dict() && b.dict()) {
    if (a.dict()->size() != b.dict()->size()) return false;
    for (const auto& [key, value] : *a.dict()) {
      const Value* other = Find(*b.dict(), key);
      if (other == nullptr || !Equal(value, *other)) return false;
    }
    return true;
  }
  return (a.none() && b.none()) || (a.undefined() && b.undefined());
}

std::optional<int> Compare(const Value& a, const Value& b) {
  if (a.number() && b.number()) {
    const double x = *a.number(), y = *b.number();
    return x < y ? -1 : x > y ? 1 : 0;
  }
  if (a.string() && b.string()) return a.string()->compare(*b.string());
  return std::nullopt;
}

std::string Text(const Value& value) {
  if (const auto* s = value.string()) return *s;
  return value.undefined() ? "" : Repr(value);
}

std::string Repr(const Value& value) {
  if (const auto* s = value.string()) return QuotedRepr(*s);
  if (const auto* b = value.As<bool>()) return *b ? "True" : "False";
  if (const auto* i = value.As<int64_t>()) return std::to_string(*i);
  if (const auto* d = value.As<double>()) return FloatText(*d);
  if (value.none()) return "None";
  if (value.undefined()) return "Undefined";
  if (value.space() != nullptr) return "<Namespace>";
  std::string out;
  if (const auto* list = value.list()) {
    for (const Value& item : *list) out += (out.empty() ? "" : ", ") + Repr(item);
    return "[" + out + "]";
  }
  if (const auto* dict = value.dict()) {
    for (const auto& [key, item] : *dict)
      out += fmt::format("{}{}: {}", out.empty() ? "" : ", ", QuotedRepr(key), Repr(item));
    return "{" + out + "}";
  }
  return fmt::format("<function {}>", value.As<Function>()->name);
}

namespace {

void AppendJson(const Value& value, const JsonStyle& style, int depth, std::string& out) {
  const auto line = [&](int levels) {
    if (style.indent < 0) return;
    out += '\n';
    out.append(static_cast<size_t>(style.indent) * static_cast<size_t>(levels), ' ');
  };
  if (const auto* s = value.string()) {
    out += QuotedJson(*s, style.ascii);
  } else if (const auto* b = value.As<bool>()) {
    out += *b ? "true" : "false";
  } else if (const auto* list = value.list()) {
    out += '[';
    for (size_t i = 0; i < list->size(); ++i) {
      if (i > 0) out += style.comma;
      line(depth + 1);
      AppendJson((*list)[i], style, depth + 1, out);
    }
    if (!list->empty()) line(depth);
    out += ']';
  } else if (const auto* dict = value.dict(); dict != nullptr && value.space() == nullptr) {
    out += '{';
    bool first = true;
    Dict sorted;
    if (style.sorted) {
      sorted = *dict;
      std::ranges::stable_sort(sorted, {}, [](const auto& member) { return member.first; });
    }
    for (const auto& [key, item] : style.sorted ? sorted : *dict) {
      if (!first) out += style.comma;
      first = false;
      line(depth + 1);
      out += QuotedJson(key, style.ascii) + style.colon;
      AppendJson(item, style, depth + 1, out);
    }
    if (!dict->empty()) line(depth);
    out += '}';
  } else if (value.none() || value.undefined()) {
    out += "null";
  } else {
    out += Repr(value);
  }
}

}  // namespace

std::string ToJson(const Value& value, const JsonStyle& style) {
  std::string out;
  AppendJson(value, style, 0, out);
  return out;
}

Value FromJson(const nlohmann::ordered_json& json) {
  if (json.is_null()) return nullptr;
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_integer()) return json.get<int64_t>();
  if (json.is_number()) return json.get<double>();
  if (json.is_string()) return ValidUtf8(json.get<std::string>());
  if (json.is_array()) {
    List list;
    for (const auto& item : json) list.push_back(FromJson(item));
    return list;
  }
  Dict dict;
  for (const auto& [key, item] : json.items()) dict.emplace_back(key, FromJson(item));
  return dict;
}

}  // namespace evoq::chat
