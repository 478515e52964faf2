// Reading the steps of a tokenizer.json: a row for each type.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "base/json_file.h"
#include "base/result.h"
#include "tokenizer/pattern.h"

namespace evoq {

// A "type" of tokenizer.json and what makes the step of it.
template <typename Step>
struct ReadRow {
  const char* name;
  Result<Step> (*read)(const nlohmann::json& step);
};

// The member of an object; null where there is none, or no object.
const nlohmann::json& JsonMember(const nlohmann::json& object, const char* key);
// The text at `key`. Errors: kInvalidInput where there is none.
Result<std::string> NeedText(const nlohmann::json& object, const char* key);
// {"pattern": {"String": text}} or {"pattern": {"Regex": text}}.
Result<Pattern> ReadPattern(const nlohmann::json& object);
Result<std::string> FromBase64(std::string_view text);

// Errors: kUnsupported naming a type that no row has.
template <typename Step>
Result<Step> ReadStep(std::span<const ReadRow<Step>> rows, const nlohmann::json& step,
                      const char* what) {
  const std::string type = JsonText(step, "type");
  for (const ReadRow<Step>& row : rows) {
    if (type == row.name) return WithContext(row.read(step), type);
  }
  if (type.empty()) return InvalidInput("{}: expected an object with a type", what);
  return Unsupported("{} of the type {}", what, type);
}

template <typename Step>
Result<std::vector<Step>> ReadSteps(std::span<const ReadRow<Step>> rows,
                                    const nlohmann::json& sequence, const char* key) {
  std::vector<Step> steps;
  for (const nlohmann::json& step : JsonArray(sequence, key)) {
    EVOQ_ASSIGN(Step read, ReadStep<Step>(rows, step, key));
    steps.push_back(std::move(read));
  }
  return steps;
}

}  // namespace evoq
