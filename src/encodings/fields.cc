#include "encodings/fields.h"

#include <cmath>

namespace evoq {

using nlohmann::json;

namespace {

constexpr size_t kMaxShown = 60;
constexpr int kMaxRank = 16;

std::string Shown(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace).substr(0, kMaxShown);
}

Status Collect(const json& value, const char* key, size_t depth, NestedNumbers& into) {
  if (value.is_number()) {
    if (depth != into.sizes.size())
      return InvalidInput("\"{}\" is nested unevenly: a number where a list is expected", key);
    into.numbers.push_back(value.get<double>());
    return {};
  }
  if (!value.is_array())
    return InvalidInput("\"{}\" has {}, expected a number or a list of numbers", key, Shown(value));
  if (depth >= into.sizes.size())
    return InvalidInput("\"{}\" is nested unevenly: a list where a number is expected", key);
  if (static_cast<int64_t>(value.size()) != into.sizes[depth])
    return InvalidInput("\"{}\" has lists of {} and of {} items at one depth", key,
                        into.sizes[depth], value.size());
  for (const json& item : value) EVOQ_TRY(Collect(item, key, depth + 1, into));
  return {};
}

}  // namespace

Result<const json*> Field(const json& entry, const char* key) {
  if (!entry.is_object()) return InvalidInput("{} is no JSON object", Shown(entry));
  const auto it = entry.find(key);
  if (it == entry.end()) return InvalidInput("\"{}\" is missing", key);
  return &*it;
}

Result<std::string> TextField(const json& entry, const char* key) {
  EVOQ_ASSIGN(const json* value, Field(entry, key));
  if (!value->is_string()) return InvalidInput("\"{}\" is {}, expected a text", key, Shown(*value));
  return value->get<std::string>();
}

Result<int64_t> IntField(const json& entry, const char* key, int64_t low, int64_t high) {
  EVOQ_ASSIGN(const json* value, Field(entry, key));
  const double number = value->is_number() ? value->get<double>() : NAN;
  if (!(number >= static_cast<double>(low) && number <= static_cast<double>(high)) ||
      number != std::floor(number))
    return InvalidInput("\"{}\" is {}, expected a whole number from {} to {}", key, Shown(*value),
                        low, high);
  return static_cast<int64_t>(number);
}

Result<bool> BoolField(const json& entry, const char* key) {
  EVOQ_ASSIGN(const json* value, Field(entry, key));
  if (value->is_boolean()) return value->get<bool>();
  const std::string text = value->is_string() ? value->get<std::string>() : "";
  if (text == "True" || text == "true") return true;
  if (text == "False" || text == "false") return false;
  return InvalidInput("\"{}\" is {}, expected True or False", key, Shown(*value));
}

Result<Encoding> NamedEntry(const json& entry, const char* section, size_t index) {
  Encoding e;
  e.place = fmt::format("{}[{}]", section, index);
  EVOQ_ASSIGN(e.name, WithContext(TextField(entry, "name"), e.place));
  e.place += fmt::format(" ({})", e.name);
  return e;
}

Result<NestedNumbers> NumbersField(const json& entry, const char* key) {
  EVOQ_ASSIGN(const json* value, Field(entry, key));
  NestedNumbers nested;
  for (const json* at = value; at->is_array(); at = &(*at)[0]) {
    if (nested.sizes.size() == kMaxRank)
      return InvalidInput("\"{}\" is nested deeper than {} lists", key, kMaxRank);
    nested.sizes.push_back(static_cast<int64_t>(at->size()));
    if (at->empty()) return InvalidInput("\"{}\" has an empty list", key);
  }
  EVOQ_TRY(Collect(*value, key, 0, nested));
  return nested;
}

Result<std::vector<float>> AsScales(const std::vector<double>& numbers, const char* key) {
  std::vector<float> scales;
  for (const double number : numbers) {
    const auto scale = static_cast<float>(number);
    if (!std::isfinite(scale) || !(scale > 0))
      return InvalidInput("\"{}\" has {}, expected finite numbers above 0", key, number);
    scales.push_back(scale);
  }
  return scales;
}

void SetOffsets(const std::vector<double>& offsets, Encoding& e) {
  const double shift = e.is_signed ? std::ldexp(1.0, e.bits - 1) : 0;
  for (const double offset : offsets) {
    const double zero = -(offset + shift);
    if (zero != std::floor(zero) || std::fabs(zero) > 2147483647.0) {
      e.refusal = fmt::format("its zero point {} is no whole number of 32 bits", zero);
      return;
    }
    e.zero_points.push_back(static_cast<int32_t>(zero));
  }
}

int64_t OffsetOf(const Encoding& e, size_t i) {
  const int64_t shift = e.is_signed ? int64_t{1} << (e.bits - 1) : 0;
  return -(e.zero_points[i] + shift);
}

}  // namespace evoq
