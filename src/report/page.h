// HTML files that open without a network.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace evoq {

// JSON for a script element: no text in it closes the element or opens a comment.
std::string ScriptText(const nlohmann::json& value);

// Puts `text` in the place of the first `mark`, which the page has.
void ReplaceMark(std::string& page, std::string_view mark, std::string_view text);

// What `evoq sensitivity` found (docs/sensitivity.md), its JSON, as a page with a heat map of the
// layers. Names in it come from files: they are data to the page, never markup.
std::string SensitivityPage(nlohmann::json found);

}  // namespace evoq
