// MachineLimits as JSON, and kept from run to run: they are the machine's, and take a second to measure.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/result.h"
#include "profile/machine.h"

namespace evoq {

nlohmann::json ToJson(const MachineLimits& limits);

// What `evoq limits --json F` wrote, here or elsewhere. Errors: kNotFound, kIo; kInvalidInput for a file without all fields
// or with figures that no machine has.
Result<MachineLimits> LoadLimits(const std::string& path);

// $EVOQ_LIMITS_CACHE where it is set ("": none), else evoq/limits.json in $XDG_CACHE_HOME or in ~/.cache. "": there is none.
std::string LimitsCachePath();

// What is kept in the file at `path` for this machine, instruction set, version and number of threads; nothing where it does
// not say or cannot be read.
std::optional<MachineLimits> FindLimits(const std::string& path, Isa isa, int threads);

// Adds the limits to the file. Atomic. Errors: kIo.
Status KeepLimits(const std::string& path, const MachineLimits& limits);

}  // namespace evoq
