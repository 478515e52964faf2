#include "profile/compare.h"

#include <gtest/gtest.h>

#include <random>

namespace evoq {
namespace {

// Round ratios of a machine whose speed varies by `noise`.
std::vector<double> Ratios(double truth, double noise, int seed, int count = 20) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal(0, noise);
  std::vector<double> ratios;
  for (int i = 0; i < count; ++i) ratios.push_back(truth * std::exp(normal(random)));
  return ratios;
}

// Single runs whose speed drifts slowly.
std::vector<double> Runs(double ms, double noise, int seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal(0, noise);
  std::vector<double> runs;
  double drift = 0;
  for (int i = 0; i < 500; ++i) {
    drift = 0.95 * drift + normal(random) * 0.3;
    runs.push_back(ms * std::exp(drift + normal(random)));
  }
  return runs;
}

TEST(Compare, EqualModelsAreTheSame) {
  int same = 0;
  for (int seed = 0; seed < 200; ++seed) same += CompareRatios(Ratios(1, 0.02, seed), 0.01).verdict == Verdict::kSame;
  EXPECT_GE(same, 190);
}

TEST(Compare, ThreePercentIsFound) {
  int slower = 0, faster = 0;
  for (int seed = 0; seed < 200; ++seed) {
    slower += CompareRatios(Ratios(1 / 1.03, 0.02, seed), 0.01).verdict == Verdict::kSlower;
    faster += CompareRatios(Ratios(1.03, 0.02, seed), 0.01).verdict == Verdict::kFaster;
  }
  EXPECT_GE(slower, 190);
  EXPECT_GE(faster, 190);
}

TEST(Compare, IntervalsCoverTheTruth) {
  int covered = 0;
  for (int seed = 0; seed < 400; ++seed) {
    const Comparison c = CompareRatios(Ratios(1.5, 0.05, seed), 0.01);
    EXPECT_LE(c.low, c.speedup);
    EXPECT_LE(c.speedup, c.high);
    covered += c.low <= 1.5 && 1.5 <= c.high;
  }
  EXPECT_GE(covered, 360);  // 95% nominal; 20 rounds make it a little less
}

TEST(Compare, SureButTinyDifferencesAreTheSame) {
  const Comparison c = CompareRatios(Ratios(1.004, 0.0005, 1), 0.01);
  EXPECT_GT(c.low, 1);
  EXPECT_EQ(c.verdict, Verdict::kSame);
}

TEST(Compare, DriftingRunsMeasuredApart) {
  int same = 0, slower = 0;
  for (int seed = 0; seed < 40; ++seed) {
    const auto a = Runs(10, 0.01, seed), equal = Runs(10, 0.01, 1000 + seed), slow = Runs(10.5, 0.01, 2000 + seed);
    same += CompareSamples(a, equal, 0.01).verdict == Verdict::kSame;
    slower += CompareSamples(a, slow, 0.01).verdict == Verdict::kSlower;
  }
  EXPECT_GE(same, 38);
  EXPECT_GE(slower, 38);
  const double one[] = {2.0}, two[] = {1.0};
  EXPECT_EQ(CompareSamples(one, two, 0.01).verdict, Verdict::kFaster);
}

// Profiles of steps whose times in eight parts alternate by `scatter` around `ms`.
StepProfile ProfileOf(const std::vector<std::pair<std::string, double>>& steps, double scatter) {
  StepProfile p;
  p.parts.resize(8);
  for (const auto& [name, ms] : steps) {
    StepTime t;
    t.name = name;
    t.ms = ms;
    p.total_ms += ms;
    p.steps.push_back(t);
    for (size_t part = 0; part < p.parts.size(); ++part) p.parts[part].steps_ms.push_back(ms + (part % 2 == 0 ? scatter : -scatter));
  }
  return p;
}

TEST(ChangedSteps, NamesWhatSurelyDiffersTheLargestFirst) {
  const std::vector<std::pair<std::string, double>> a = {{"conv_1", 1}, {"conv_2", 2}, {"fc", 1}}, b = {{"fc", 1.5}, {"conv_1", 1.018}, {"conv_2", 2.001}, {"new", 0.1}};
  const auto changes = ChangedSteps(ProfileOf(a, 0), ProfileOf(b, 0.01));
  ASSERT_EQ(changes.size(), 2u) << "conv_1 differs by more than four errors, but by less than 0.5% of the run";
  EXPECT_EQ(changes[0].name, "fc");
  EXPECT_DOUBLE_EQ(changes[0].b_ms - changes[0].a_ms, 0.5);
  EXPECT_EQ(changes[1].name, "new");
  EXPECT_EQ(changes[1].a_ms, 0);
  EXPECT_EQ(ChangedSteps(ProfileOf(a, 0), ProfileOf(b, 0.1)).size(), 1u) << "the parts differ as much as the models";
  StepProfile single = ProfileOf(b, 0);
  single.parts.clear();
  EXPECT_TRUE(ChangedSteps(ProfileOf(a, 0), single).empty()) << "too few runs to be sure";
}

}  // namespace
}  // namespace evoq
