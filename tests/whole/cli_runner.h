// Runs the command line in this process, for tests.
#pragma once

#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/verb.h"
#include "workflow/tiny_testing.h"

namespace evoq {

class CliRunner : public TinyFolder {
 protected:
  struct Ran {
    int code = -1;
    std::string out, log;  // what stdout and stderr showed
    nlohmann::json
        json;  // what --json wrote; discarded where it is no JSON, null where there is none
  };
  // Without --json where `with_json` is false: verbs that fail write none.
  Ran Run(std::vector<std::string> words, bool with_json = true) {
    const std::string report = At("report.json");
    std::filesystem::remove(report);
    words.insert(words.begin(), "evoq");
    if (with_json) words.insert(words.end(), {"--json", report});
    std::vector<const char*> argv;
    for (const std::string& w : words) argv.push_back(w.c_str());
    Ran ran;
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    ran.code = RunCommandLine(static_cast<int>(argv.size()), argv.data());
    ran.log = ::testing::internal::GetCapturedStderr();
    ran.out = ::testing::internal::GetCapturedStdout();
    std::ifstream file(report);
    if (file) ran.json = nlohmann::json::parse(file, nullptr, false);
    return ran;
  }
  // The JSON of a verb that must succeed.
  nlohmann::json Json(const std::vector<std::string>& words) {
    Ran ran = Run(words);
    EXPECT_EQ(ran.code, 0) << words[0] << ": " << ran.log;
    EXPECT_TRUE(ran.json.is_structured()) << words[0] << " wrote no JSON";
    return std::move(ran.json);
  }
};

}  // namespace evoq
