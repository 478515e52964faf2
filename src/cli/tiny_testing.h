// For tests of the verbs on tiny models.
#pragma once

#include "tests/whole/cli_runner.h"

namespace evoq {

constexpr int kUsage = 2, kBadInput = 3;  // exit codes

// A row of a table, its gaps of several spaces made one.
inline std::string Squeezed(const std::string& text) {
  std::string out;
  for (char c : text) {
    if (c == ' ' && (out.empty() || out.back() == ' ' || out.back() == '\n')) continue;
    if (c == '\n' && !out.empty() && out.back() == ' ') out.pop_back();
    out += c;
  }
  return out;
}

class TinyModels : public CliRunner {
 protected:
  // What a verb that must fail says, after its status.
  std::string Refused(const std::vector<std::string>& words, int code) {
    const Ran ran = Run(words, false);
    EXPECT_EQ(ran.code, code) << ran.log;
    return ran.log;
  }
};

}  // namespace evoq
