// What a task says of its result.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace evoq {

struct Told {
  nlohmann::json json;           // as docs/cli.md has it
  std::string text;              // lines for a terminal
  std::vector<std::string> log;  // lines beside the result: "warning: ...", "note: ..."
};

}  // namespace evoq
