#include "serve/fields.h"

#include <charconv>
#include <optional>

#include "base/brief.h"
#include "base/json_file.h"
#include "base/nearest.h"

namespace evoq::serve {
namespace {

using nlohmann::json;

}  // namespace

std::optional<int64_t> IntegerOf(const json& value) {
  if (value.is_number_unsigned()) {
    const auto number = value.get<uint64_t>();
    if (number > static_cast<uint64_t>(INT64_MAX)) return std::nullopt;
    return static_cast<int64_t>(number);
  }
  if (value.is_number_integer()) return value.get<int64_t>();
  if (!value.is_string()) return std::nullopt;
  const auto& text = value.get_ref<const std::string&>();
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::string Brief(const json& value) {
  // An array or an object may be as large as the request.
  if (value.is_array()) return fmt::format("a list of {}", value.size());
  if (value.is_object()) return "an object";
  return JsonBriefly(value);
}

Fields::Fields(const json& object, std::string where) : object_(object), where_(std::move(where)) {
  if (!object.is_object())
    first_ = InvalidInput("{}: {}, expected an object", where_, Brief(object));
}

std::string Fields::at(const char* key) const {
  return where_.empty() ? key : fmt::format("{}: {}", where_, key);
}

void Fields::Fail(const char* key, const std::string& expected) {
  if (first_) first_ = InvalidInput("{}: {}, expected {}", at(key), Brief(object_[key]), expected);
}

void Fields::Keep(const Status& status) {
  if (first_ && !status) first_ = status;
}

bool Fields::has(const char* key) const {
  return object_.is_object() && object_.contains(key) && !object_[key].is_null();
}

const json* Fields::Find(const char* key) {
  known_.insert(key);
  return has(key) ? &object_[key] : nullptr;
}

const json& Fields::Member(const char* key) {
  static const json kNull;
  const json* const found = Find(key);
  return found != nullptr ? *found : kNull;
}

void Fields::Read(const char* key, int64_t& value, int64_t low, int64_t high) {
  const json* const found = Find(key);
  if (found == nullptr) return;
  const auto number = IntegerOf(*found);
  if (!number || *number < low || *number > high)
    return Fail(key, fmt::format("a whole number from {} to {}", low, high));
  value = *number;
}

void Fields::Read(const char* key, int& value, int low, int high) {
  int64_t wide = value;
  Read(key, wide, int64_t{low}, int64_t{high});
  value = static_cast<int>(wide);
}

void Fields::Read(const char* key, double& value, double low, double high) {
  const json* const found = Find(key);
  if (found == nullptr) return;
  if (!found->is_number() || !(found->get<double>() >= low) || !(found->get<double>() <= high))
    return Fail(key, fmt::format("a number from {} to {}", low, high));
  value = found->get<double>();
}

void Fields::Read(const char* key, bool& value) {
  const json* const found = Find(key);
  if (found == nullptr) return;
  if (!found->is_boolean()) return Fail(key, "true or false");
  value = found->get<bool>();
}

void Fields::Read(const char* key, std::string& value) {
  const json* const found = Find(key);
  if (found == nullptr) return;
  if (!found->is_string()) return Fail(key, "a text");
  value = found->get<std::string>();
}

void Fields::Read(const char* key, std::vector<int64_t>& value, int64_t low, int64_t high) {
  const json* const found = Find(key);
  if (found == nullptr) return;
  if (!found->is_array()) return Fail(key, "a list of whole numbers");
  std::vector<int64_t> numbers;
  for (const json& item : *found) {
    const auto number = IntegerOf(item);
    if (!number || *number < low || *number > high) {
      if (first_)
        first_ = InvalidInput("{}[{}]: {}, expected a whole number from {} to {}", at(key),
                              numbers.size(), Brief(item), low, high);
      return;
    }
    numbers.push_back(*number);
  }
  value = std::move(numbers);
}

std::vector<std::string> Fields::Others() const {
  std::vector<std::string> others;
  for (const auto& item : object_.items()) {
    if (!known_.contains(item.key())) others.push_back(item.key());
  }
  return others;
}

Status Fields::Done(bool others) const {
  if (!first_ || others) return first_;
  for (const std::string& key : Others()) {
    const std::vector<std::string_view> names(known_.begin(), known_.end());
    return InvalidInput("{}: unknown key{}", at(Shorten(key).c_str()),
                        NearestHint(Shorten(key), names));
  }
  return {};
}

}  // namespace evoq::serve
