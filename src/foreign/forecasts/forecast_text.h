// How a forecast for another runtime is shown.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "foreign/forecasts/rule.h"

namespace evoq {

// {"target","source","fates":{"integer":N,...},"nodes":[{"name","op","fate"}],
//  "conversions":[names],"weights_dequantized":[names],"copies":[{"value","to":"host|device"}],
//  "findings":[{"code","places":[{"name","detail","repairable"}],"repairable","sentence","fix",
//               "source"}]}
nlohmann::json ToJson(const Graph& graph, const Examination& examination);
std::string ToText(const Graph& graph, const Examination& examination);
// `on`: what outputs were compared on ("4 random samples"), "" where they were not.
std::string ToText(const Repairs& repairs, const std::string& on);
// [{"code","places","made","change":{...}|null}]; a change is
// {"output","exact","snr_db","max_difference","largest"}, null for what is infinite.
nlohmann::json ToJson(std::span<const Repair> repairs);
nlohmann::json ToJson(std::span<const OutputChange> changes);

}  // namespace evoq
