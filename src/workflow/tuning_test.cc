#include "workflow/tuning.h"

#include <gtest/gtest.h>

namespace evoq {
namespace {

TEST(Tuning, WhatItTells) {
  TuneReport report;
  report.steps = 7;
  report.measured = 2;
  report.changed = 3;
  report.default_ms = 1.5;
  report.tuned_ms = 1.25;
  report.seconds = 0.75;
  report.warnings = {"one", "two"};
  const nlohmann::json expected = {{"steps", 7},
                                   {"measured", 2},
                                   {"changed", 3},
                                   {"default_ms", 1.5},
                                   {"tuned_ms", 1.25},
                                   {"seconds", 0.75},
                                   {"warnings", {"one", "two"}}};
  const Told told = Tell(report);
  EXPECT_EQ(told.json, expected);
  EXPECT_EQ(told.text,
            "tuned 7 steps in 0.8 s, 2 kinds measured: 3 take another way than the default, "
            "1.500 -> 1.250 ms\n");
  EXPECT_EQ(told.log, (std::vector<std::string>{"warning: one", "warning: two"}));
  report.changed = 0, report.tuned_ms = 1.75;  // what was fastest step by step is not kept
  EXPECT_EQ(Tell(report).text,
            "tuned 7 steps in 0.8 s, 2 kinds measured: 0 take another way than the default, which "
            "takes 1.500 ms\n");
  report.changed = 3, report.measured = 0;
  report.warnings.clear();
  const Told nothing = Tell(report);
  EXPECT_EQ(nothing.text,
            "tuned 7 steps in 0.8 s, 0 kinds measured: 3 take another way than the default\n");
  EXPECT_TRUE(nothing.log.empty());
}

}  // namespace
}  // namespace evoq
