// For tests of the verbs on tiny models.
#pragma once

#include "tests/whole/cli_runner.h"

namespace evoq {

constexpr int kUsage = 2, kBadInput = 3;  // exit codes

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
