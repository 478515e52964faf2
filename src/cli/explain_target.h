// `explain --target`: what another runtime will make of a model.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "base/result.h"

namespace evoq {

// Prints the forecast for the runtime of that name; with `fix`, repairs the placement and writes it to `output` (.onnx).
Result<nlohmann::json> ExplainTarget(const std::string& model, const std::string& target, bool fix, const std::string& output);

}  // namespace evoq
