// Files of other runtimes, made up for the tests of this room.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "base/file.h"
#include "foreign/profiles/rule.h"
#include "foreign/profiles/source.h"

namespace evoq {

// A folder of its own, empty when a test begins.
class ProfileFiles : public ::testing::Test {
 protected:
  void SetUp() override { Clear(); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  void Clear() const {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  std::string At(const std::string& name) const { return (folder_ / name).string(); }
  std::string Write(const std::string& name, const nlohmann::json& value) const {
    EXPECT_TRUE(WriteFileAtomic(At(name), value.dump()));
    return At(name);
  }

  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("evoq_profiles_" + std::to_string(::getpid()));
};

inline const ForeignSource& Source(const std::string& tool) {
  for (const ForeignSource* source : AllForeignSources()) {
    if (tool == source->tool) return *source;
  }
  std::abort();
}

// What the findings cost, by rule.
inline std::map<std::string, double> LostBy(const Diagnosis& diagnosis) {
  std::map<std::string, double> lost;
  for (const Finding& f : diagnosis.findings) lost[f.rule->code] = f.ms;
  return lost;
}

}  // namespace evoq
