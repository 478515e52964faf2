// The page of html.h in two parts, for whoever keeps what it shows and makes pages of it later.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "report/html.h"

namespace evoq {

// What the page shows: "version", "limits", "models" (the model, then its baseline), and where they
// are known "time", "bytes" and "compare". "stages": [{"stage", "did", "speed"}], of who has them.
nlohmann::json ReportData(const Report& report);

// The page. Names in the data come from files: they are data to the page, never markup.
std::string PageOf(const nlohmann::json& data);

}  // namespace evoq
