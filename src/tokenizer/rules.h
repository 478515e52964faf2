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

// `step` as what it is: of the type `type`. Errors: kUnsupported naming a type that no row has.
template <typename Step>
Result<Step> ReadStepOf(std::span<const ReadRow<Step>> rows, const std::string& type,
                        const nlohmann::json& step, const char* what) {
  for (const ReadRow<Step>& row : rows) {
    if (type == row.name) return WithContext(row.read(step), type);
  }
  return Unsupported("{} of the type {}", what, type);
}

// Errors: as above; kInvalidInput where it does not say its type.
template <typename Step>
Result<Step> ReadStep(std::span<const ReadRow<Step>> rows, const nlohmann::json& step,
                      const char* what) {
  const std::string type = JsonText(step, "type");
  if (type.empty()) return InvalidInput("{}: expected an object with a type", what);
  return ReadStepOf(rows, type, step, what);
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
