// What templates may call: filters, tests, methods and functions. A row each.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tokenizer/template/value.h"

namespace evoq::chat {

// The work and memory that one rendering may take.
class Limits {
 public:
  static constexpr int64_t kMaxSteps = 10'000'000;
  static constexpr int64_t kMaxBytes = 256 << 20;  // of all texts and lists that it makes
  static constexpr int64_t kMaxWeight = 16 << 20;  // of a list or a dict
  static constexpr int kMaxDepth = 100;

  // Errors: kTooLarge.
  Status Step();
  Status Make(size_t bytes);
  // A text that was made.
  Result<Value> Made(std::string text);
  Result<Value> Made(List list);
  Result<Value> Made(Dict dict);

 private:
  Result<Value> Checked(Value value);
  int64_t steps_ = 0, bytes_ = 0;
};

// Arguments of a call, those of a method or a filter behind what it is of.
struct Call {
  const Value& of;
  List args;
  Dict named;
  Limits& limits;

  // The i-th argument, or the one of this name, or the fallback.
  Value Get(size_t i, std::string_view name, Value fallback = {}) const;
};

struct Builtin {
  const char* name;
  size_t most;  // arguments
  Result<Value> (*run)(const Call& call);
  const char* named = "";  // those that may be given by name, with spaces between; "*": any
};

std::span<const Builtin> Filters();    // value | name(...)
std::span<const Builtin> Tests();      // value is name(...): a bool
std::span<const Builtin> Methods();    // of texts and dicts: value.name(...)
std::span<const Builtin> Functions();  // name(...)
// The same, of names that count as undefined until they are called.
std::span<const Builtin> HiddenFunctions();

// Errors: kUnsupported for a name that no row has and for an argument's name that it does not know,
// kInvalidInput for too many arguments.
Result<Value> Run(std::span<const Builtin> rows, const char* what, std::string_view name,
                  const Call& call);
bool Has(std::span<const Builtin> rows, std::string_view name);

// value[index]: undefined where there is none. Errors: kInvalidInput for what has no members.
Result<Value> Member(const Value& value, const Value& index);
// The items that a loop visits: of a list, keys of a dict, characters of a text; none of undefined.
Result<List> Items(const Value& value, Limits& limits);

}  // namespace evoq::chat
