// What a config.json says, setting by setting; internal to the room. Errors name the setting.
#pragma once

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <vector>

#include "llm/language_model.h"

namespace evoq {

bool Given(const nlohmann::json& object, const char* key);
// The first of the keys that is there; null where none is.
const nlohmann::json* First(const nlohmann::json& object, std::initializer_list<const char*> keys);

// A whole number; `fallback` where no key is there, which is an error when it is negative.
Result<int64_t> Int(const nlohmann::json& config, std::initializer_list<const char*> keys,
                    int64_t fallback = -1);
Result<double> Real(const nlohmann::json& config, std::initializer_list<const char*> keys,
                    double fallback);
Result<bool> Truth(const nlohmann::json& config, const char* key, bool fallback);
// A token or a list of them.
Result<std::vector<int64_t>> Ids(const nlohmann::json& config, const char* key);
Result<GateFunction> Function(const nlohmann::json& config, GateFunction fallback);

}  // namespace evoq
