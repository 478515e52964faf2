// JSON that somebody else wrote: size and nesting are bounded, and errors name the file.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/result.h"

namespace evoq {

// Errors: kInvalidInput for text that is no JSON, or is nested deeper than 64 levels.
Result<nlohmann::json> ParseJson(std::string_view text);
// Errors: those of ReadTextFile and ParseJson, with the path before them.
Result<nlohmann::json> ReadJsonFile(const std::string& path, size_t max_bytes = size_t{1} << 30);

// What a message shows of a value: its text, of a long one the beginning (base/brief.h).
std::string JsonBriefly(const nlohmann::json& value);

// The member of an object when it has the type asked for, else the fallback.
double JsonNumber(const nlohmann::json& object, const char* key, double fallback = 0);
std::string JsonText(const nlohmann::json& object, const char* key);
const nlohmann::json& JsonArray(const nlohmann::json& object,
                                const char* key);  // an empty array when missing

}  // namespace evoq
