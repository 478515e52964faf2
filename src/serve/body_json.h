// JSON with many numbers: the bodies of inference requests.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "base/result.h"

namespace evoq::serve {

// What ParseJson (base/json_file.h) gives, faster where most of the text are numbers. Errors: those
// of ParseJson.
Result<nlohmann::json> ParseBody(std::string_view text);

}  // namespace evoq::serve
