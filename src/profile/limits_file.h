// MachineLimits as JSON, and kept from run to run: they are the machine's, and take a second to
// measure.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/result.h"
#include "profile/machine.h"

namespace evoq {

nlohmann::json ToJson(const MachineLimits& limits);

// What `evoq limits --json F` wrote, here or elsewhere. Errors: kNotFound, kIo; kInvalidInput for a
// file without all fields or with figures that no machine has.
Result<MachineLimits> LoadLimits(const std::string& path);

std::string LimitsCachePath();  // CachePath of $EVOQ_LIMITS_CACHE, limits.json

// What is kept in the file at `path` for this machine, instruction set, version and number of
// threads; nothing where it does not say. Errors (kInvalidInput, kIo): the file cannot be read or
// is damaged; the caller tells the user and measures, and KeepLimits replaces it.
Result<std::optional<MachineLimits>> FindLimits(const std::string& path, Isa isa, int threads);

// Adds the limits to what the file holds, or replaces it where it is damaged. Atomic. Errors: kIo.
Status KeepLimits(const std::string& path, const MachineLimits& limits);

}  // namespace evoq
