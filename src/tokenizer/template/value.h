// Values of chat templates: Python's, as far as templates use them.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"

namespace evoq::chat {

struct Macro;  // parser.h
class Value;

using List = std::vector<Value>;
// In the order of insertion. Objects of templates are small: a key is found by looking at all.
using Dict = std::vector<std::pair<std::string, Value>>;
struct Undefined {
  std::string name;
};
struct Function {
  std::string name;    // a row of the functions (builtins.h)
  const Macro* macro;  // or a macro
};

// Members that a template sets: ns.name = value.
struct Namespace {
  Dict members;
};

// Copies share lists, dicts and namespaces; only the last change, and hold no namespaces.
class Value {
 public:
  using Data = std::variant<Undefined, std::nullptr_t, bool, int64_t, double, std::string,
                            std::shared_ptr<const List>, std::shared_ptr<const Dict>,
                            std::shared_ptr<Namespace>, Function>;

  Value() = default;  // undefined
  template <typename T>
    requires std::is_constructible_v<Data, T> && (!std::is_same_v<std::decay_t<T>, Value>)
  Value(T data) : data_(std::move(data)) {}  // NOLINT: values are written as what they are
  Value(int data) : data_(int64_t{data}) {}
  Value(size_t data) : data_(static_cast<int64_t>(data)) {}
  Value(const char* data) : data_(std::string(data)) {}
  Value(std::string_view data) : data_(std::string(data)) {}
  Value(List list);
  Value(Dict dict);

  template <typename T>
  const T* As() const {
    return std::get_if<T>(&data_);
  }
  bool undefined() const { return As<Undefined>() != nullptr; }
  bool none() const { return As<std::nullptr_t>() != nullptr; }
  const std::string* string() const { return As<std::string>(); }
  const List* list() const;
  const Dict* dict() const;  // a namespace's members too
  Namespace* space() const;
  std::optional<int64_t> integer() const;  // of int and bool
  std::optional<double> number() const;    // of int, bool and float

  bool truth() const;
  // "dict", "str", ...: Python's names.
  const char* type() const;

  // Lists and dicts: levels of nesting, and the bytes that it would take without sharing. Work on
  // all of a value is bounded by them (Limits).
  int depth() const { return depth_; }
  int64_t weight() const;
  bool holds_namespace() const { return holds_namespace_ || space() != nullptr; }

 private:
  void Contain(const Value& member);
  Data data_;
  int depth_ = 0;
  int64_t weight_ = 0;
  bool holds_namespace_ = false;
};

// The member of a dict, nullptr where there is none.
const Value* Find(const Dict& dict, std::string_view key);
// Sets the member; whether it is a new one.
bool Put(Dict& dict, const std::string& key, const Value& value);

bool Equal(const Value& a, const Value& b);
// Negative, 0, positive; nothing where Python has no order.
std::optional<int> Compare(const Value& a, const Value& b);

// Python's str() and repr().
std::string Text(const Value& value);
std::string Repr(const Value& value);
// json.dumps.
struct JsonStyle {
  int indent = -1;  // below 0: on one line
  std::string comma = ", ", colon = ": ";
  bool sorted = false;  // members by their names
  bool ascii = false;   // other characters are escaped
};
std::string ToJson(const Value& value, const JsonStyle& style = {});
Value FromJson(const nlohmann::ordered_json& json);

}  // namespace evoq::chat
