// How a diagnosis of another runtime's run is shown.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "foreign/profiles/rule.h"

namespace evoq {

// {"tool","end_to_end_ms","layer_sum_ms","layers","weight_bytes","groups":{...},"findings":[...]}
// and, with a baseline, "baseline": {same}, "delta": {per group, "layer_sum_ms"} and "time" as
// explain writes it for evoq's own models.
nlohmann::json ToJson(const ForeignRun& run, const ForeignRun* baseline,
                      const Diagnosis& diagnosis);
std::string ToText(const ForeignRun& run, const ForeignRun* baseline, const Diagnosis& diagnosis);

}  // namespace evoq
