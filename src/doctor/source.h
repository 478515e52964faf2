// Readers of other runtimes' files: one row each, named by one line in doctor/sources.inc.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "base/result.h"
#include "doctor/foreign_run.h"

namespace evoq {

struct ForeignSource {
  const char* tool;    // ForeignRun::tool
  const char* option;  // of `evoq explain`: "--trtexec"
  const char* takes;   // "DIR": what the option names
  const char* doc;
  // Reads `path`. Errors: kNotFound, kIo; kInvalidInput with the file, what was found and what was expected.
  Result<ForeignRun> (*read)(const std::string& path);
};

std::span<const ForeignSource* const> AllForeignSources();

// For readers: a file as JSON, with errors that name it; nesting and size are bounded.
Result<nlohmann::json> ReadJsonFile(const std::string& path);
// The member of an object when it has the type asked for, else the fallback.
double JsonNumber(const nlohmann::json& object, const char* key, double fallback = 0);
std::string JsonText(const nlohmann::json& object, const char* key);
const nlohmann::json& JsonArray(const nlohmann::json& object, const char* key);  // an empty array when missing

}  // namespace evoq
