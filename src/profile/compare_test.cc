#include "profile/compare.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "profile/test_watch.h"

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
  for (int seed = 0; seed < 200; ++seed)
    same += CompareRatios(Ratios(1, 0.02, seed), 0.01).verdict == Verdict::kSame;
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
    const auto a = Runs(10, 0.01, seed), equal = Runs(10, 0.01, 1000 + seed),
               slow = Runs(10.5, 0.01, 2000 + seed);
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
    for (size_t part = 0; part < p.parts.size(); ++part)
      p.parts[part].steps_ms.push_back(ms + (part % 2 == 0 ? scatter : -scatter));
  }
  return p;
}

TEST(ChangedSteps, NamesWhatSurelyDiffersTheLargestFirst) {
  const std::vector<std::pair<std::string, double>> a = {{"conv_1", 1}, {"conv_2", 2}, {"fc", 1}},
                                                    b = {{"fc", 1.5},
                                                         {"conv_1", 1.018},
                                                         {"conv_2", 2.001},
                                                         {"new", 0.1}};
  const auto changes = ChangedSteps(ProfileOf(a, 0), ProfileOf(b, 0.01));
  ASSERT_EQ(changes.size(), 2u)
      << "conv_1 differs by more than four errors, but by less than 0.5% of the run";
  EXPECT_EQ(changes[0].name, "fc");
  EXPECT_DOUBLE_EQ(changes[0].b_ms - changes[0].a_ms, 0.5);
  EXPECT_EQ(changes[1].name, "new");
  EXPECT_EQ(changes[1].a_ms, 0);
  EXPECT_EQ(ChangedSteps(ProfileOf(a, 0), ProfileOf(b, 0.1)).size(), 1u)
      << "the parts differ as much as the models";
  StepProfile single = ProfileOf(b, 0);
  single.parts.clear();
  EXPECT_TRUE(ChangedSteps(ProfileOf(a, 0), single).empty()) << "too few runs to be sure";
}

// Two models on a machine whose time is made up: each run takes so many milliseconds.
struct Planted {
  FakeWatch& watch;
  double ms;
  double waits = 0;  // and every other run waits so long for a processor
  int threads = 1;
  int made = 0, runs = 0;
  std::string* order = nullptr;
  char name = ' ';

  Contestant Make() {
    return {threads, [this](const std::shared_ptr<ThreadPool>&) -> Result<std::function<Status()>> {
              ++made;
              return std::function<Status()>([this]() -> Status {
                if (order) *order += name;
                const double waited = runs++ % 2 == 1 ? waits : 0;
                watch.Pass(ms + waited, ms);
                return {};
              });
            }};
  }
};

CompareOptions On(FakeWatch& watch) {
  CompareOptions options;
  options.watch = &watch;
  options.duration_s = 4;
  return options;
}

TEST(CompareContestants, PlantedSpeedsAreFoundExactly) {
  FakeWatch watch;
  Planted a{watch, 3}, b{watch, 1};
  const auto runs = CompareContestants(a.Make(), b.Make(), On(watch));
  ASSERT_TRUE(runs.has_value());
  const Comparison& c = runs->result;
  EXPECT_NEAR(c.speedup, 3, 1e-9);
  EXPECT_NEAR(c.low, 3, 1e-9);
  EXPECT_NEAR(c.high, 3, 1e-9);
  EXPECT_NEAR(c.a_ms, 3, 1e-9);
  EXPECT_NEAR(c.b_ms, 1, 1e-9);
  EXPECT_NEAR(c.rested, 3, 1e-9);
  EXPECT_EQ(c.verdict, Verdict::kFaster);
  EXPECT_EQ(c.rounds, 20);
  EXPECT_EQ(a.made, 20) << "fresh ones in each round";
  EXPECT_EQ(runs->a.runs(), runs->b.runs());
  EXPECT_NEAR(runs->a.median(), 3, 1e-9);
  EXPECT_NEAR(runs->b.median(), 1, 1e-9);
  const auto other_way = CompareContestants(b.Make(), a.Make(), On(watch));
  EXPECT_NEAR(other_way->result.speedup, 1.0 / 3, 1e-9);
  EXPECT_EQ(other_way->result.verdict, Verdict::kSlower);
}

TEST(CompareContestants, TheVerdictAtAndAroundTheLeastEffect) {
  const auto verdict = [](double a_ms, double b_ms) {
    FakeWatch watch;
    Planted a{watch, a_ms}, b{watch, b_ms};
    return CompareContestants(a.Make(), b.Make(), On(watch))->result.verdict;
  };
  EXPECT_EQ(verdict(10.098, 10), Verdict::kSame);
  EXPECT_EQ(verdict(10.102, 10), Verdict::kFaster);
  EXPECT_EQ(verdict(10, 10.098), Verdict::kSame);
  EXPECT_EQ(verdict(10, 10.102), Verdict::kSlower);
  EXPECT_EQ(verdict(10, 10), Verdict::kSame);
}

TEST(CompareContestants, TheFirstOfARoundChanges) {
  FakeWatch watch;
  std::string order;
  Planted a{watch, 1, 0, 1, 0, 0, &order, 'a'}, b{watch, 1, 0, 1, 0, 0, &order, 'b'};
  CompareOptions options = On(watch);
  options.duration_s = 0;
  options.warmup_ms = 0;
  ASSERT_TRUE(CompareContestants(a.Make(), b.Make(), options).has_value());
  EXPECT_EQ(order, "abbaab") << "three rounds of one run each, whatever the time";
}

TEST(CompareContestants, WaitingForAProcessorIsNoPartOfAModelsTime) {
  FakeWatch watch;
  Planted a{watch, 12, 20}, b{watch, 4, 1};
  const Comparison c = CompareContestants(a.Make(), b.Make(), On(watch))->result;
  EXPECT_NEAR(c.speedup, 3, 1e-9);
  EXPECT_NEAR(c.a_ms, 12, 1e-9);
  // Per pair of runs of each: 20 and 1 ms of 12 + 32 + 4 + 5.
  EXPECT_NEAR(c.disturbance.waited, 21.0 / 53, 0.06);
  EXPECT_LT(c.low, 2.5) << "but what else the other processes did is not known";
  EXPECT_GT(c.high, 3.6);
}

TEST(CompareContestants, TheDurationIsALimit) {
  // Warm-up, fresh models and all rounds: no longer than asked for, but for the run that was begun.
  for (const double ms : {0.5, 20.0, 150.0}) {
    FakeWatch watch;
    Planted a{watch, ms}, b{watch, ms};
    const double start = watch.wall_ms;
    const auto runs = CompareContestants(a.Make(), b.Make(), On(watch));
    EXPECT_LE(watch.wall_ms - start, 4000 + 2 * 2 * ms) << ms;
    EXPECT_GE(watch.wall_ms - start, 3000) << ms;
    EXPECT_GE(runs->result.rounds, 3) << ms;
  }
  // Pairs of 200 ms, one to warm up and five for a round: three rounds end after 3.6 s, and the
  // fourth has 0.4 s, whatever its least runs would take.
  FakeWatch steady;
  Planted c{steady, 100}, d{steady, 100};
  CompareOptions four = On(steady);
  four.rounds = 4;
  const double begun = steady.wall_ms;
  EXPECT_EQ(CompareContestants(c.Make(), d.Make(), four)->result.rounds, 4);
  EXPECT_NEAR(steady.wall_ms - begun, 4000, 1e-6);
  // Models too slow for it: one pair to warm up, and three rounds of one pair.
  FakeWatch watch;
  Planted a{watch, 5000}, b{watch, 5000};
  EXPECT_EQ(CompareContestants(a.Make(), b.Make(), On(watch))->result.rounds, 3);
  EXPECT_EQ(a.runs, 4);
}

// Pairs of 1 ms: 90 to warm up, then 9 in each later round, whose models are fresh but whose
// machine is warm; at most half of a round's share.
TEST(CompareContestants, LaterRoundsWarmUpATenth) {
  FakeWatch watch;
  Planted a{watch, 0.5}, b{watch, 0.5};
  CompareOptions options = On(watch);
  options.rounds = 4;
  options.warmup_ms = 90;
  auto runs = CompareContestants(a.Make(), b.Make(), options);
  ASSERT_TRUE(runs.has_value());
  EXPECT_EQ(a.runs - runs->a.runs(), 90 + 3 * 9);
  EXPECT_EQ(b.runs - runs->b.runs(), 90 + 3 * 9);
  options.warmup_ms = 1e6;
  a.runs = 0;
  runs = CompareContestants(a.Make(), b.Make(), options);
  EXPECT_NEAR(static_cast<double>(a.runs - runs->a.runs()), 4 * 500, 4);
}

TEST(CompareContestants, WaitsForOtherWorkToEndWithinTheDuration) {
  FakeWatch watch;
  watch.others = 2;
  Planted a{watch, 3}, b{watch, 1};
  CompareOptions options = On(watch);
  options.wait_s = 2;
  const double start = watch.wall_ms;
  const Comparison c = CompareContestants(a.Make(), b.Make(), options)->result;
  EXPECT_NEAR(watch.wall_ms - start, 4000, 20);
  EXPECT_EQ(watch.sleeps, 10) << "2 s of 200 ms";
  EXPECT_NEAR(c.disturbance.seconds, 2, 0.02) << "waiting is not measuring";
  EXPECT_NEAR(c.disturbance.others, 0.98, 0.02);
  EXPECT_TRUE(c.disturbance.too_much());
}

TEST(CompareRounds, TheRatioIsThatOfTheTimes) {
  const RoundTimes rounds[] = {
      {4, 1}, {9, 4}, {16, 4}};  // ratios 4, 2.25, 4; geometric means 2, 6, 8
  const Comparison c = CompareRounds(rounds, 0.01);
  EXPECT_DOUBLE_EQ(c.speedup, 4);
  EXPECT_DOUBLE_EQ(c.b_ms, 3) << "6 / sqrt(4)";
  EXPECT_DOUBLE_EQ(c.a_ms, 12);
  EXPECT_EQ(c.rounds, 3);
  EXPECT_DOUBLE_EQ(c.low, 2.25);
  EXPECT_DOUBLE_EQ(c.high, 4);
  EXPECT_EQ(ToText(c), "3.000 ms beside 12.000 ms: 4.000x [2.250, 4.000]");
  const nlohmann::json json = ToJson(c);
  EXPECT_EQ(json["a_ms"].get<double>() / json["b_ms"].get<double>(), json["speedup"].get<double>());
  EXPECT_EQ(json["verdict"], "faster");
  EXPECT_EQ(json["rounds"], 3);
}

TEST(CompareRounds, ShortTimesAreShownWithTheDigitsThatTheirRatioNeeds) {
  const RoundTimes rounds[] = {{0.0123456, 0.00456789}};
  EXPECT_TRUE(
      ToText(CompareRounds(rounds, 0.01)).starts_with("0.004568 ms beside 0.01235 ms: 2.703x"))
      << ToText(CompareRounds(rounds, 0.01));
}

TEST(CompareRounds, DisturbanceMovesTheBoundsApart) {
  const RoundTimes rounds[] = {{4, 1}, {4, 1}, {4, 1}};
  Disturbance d;
  d.waited = 0.6;  // distortion 0.3: a factor of 1.529420 at a ratio of 4
  const Comparison c = CompareRounds(rounds, 0.01, d);
  EXPECT_DOUBLE_EQ(c.speedup, 4);
  EXPECT_NEAR(c.low, 4 / 1.529420, 1e-5);
  EXPECT_NEAR(c.high, 4 * 1.529420, 1e-5);
  EXPECT_EQ(c.verdict, Verdict::kFaster);
  const double near[] = {1.02, 1.02, 1.02};
  EXPECT_EQ(CompareRatios(near, 0.01).verdict, Verdict::kFaster);
  d.waited = 1;  // 1.02^0.5 * exp(0.015) = 1.0252
  EXPECT_EQ(CompareRatios(near, 0.01, d).verdict, Verdict::kSame);
}

TEST(CompareSamples, TimesAreTheMedians) {
  const double a[] = {5, 6, 7, 100, 6}, b[] = {2, 2, 3, 2, 50};
  const Comparison c = CompareSamples(a, b, 0.01);
  EXPECT_DOUBLE_EQ(c.a_ms, 6);
  EXPECT_DOUBLE_EQ(c.b_ms, 2);
  EXPECT_DOUBLE_EQ(c.speedup, 3);
  EXPECT_LE(c.low, c.speedup);
  EXPECT_GE(c.high, c.speedup);
}

TEST(CompareProfiles, OneSetOfTurnsGivesTimesRatioAndInterval) {
  StepProfile a, b;
  a.total_ms = 9, b.total_ms = 3;
  a.turns_ms = {10, 12, 9, 16}, b.turns_ms = {5, 4, 3, 4};  // ratios 2, 3, 3, 4: median 3
  b.disturbance.others = 0.1;
  const Comparison c = CompareProfiles(a, b);
  EXPECT_DOUBLE_EQ(c.speedup, 3);
  EXPECT_DOUBLE_EQ(c.a_ms, 9);
  EXPECT_DOUBLE_EQ(c.b_ms, 3);
  EXPECT_EQ(c.rounds, 4);
  EXPECT_EQ(c.verdict, Verdict::kFaster);
  EXPECT_EQ(c.disturbance.others, 0.1);
  // The same turns beside other calm times: the interval goes with the ratio.
  a.total_ms = 12;
  const Comparison moved = CompareProfiles(a, b);
  EXPECT_DOUBLE_EQ(moved.speedup, 4);
  EXPECT_DOUBLE_EQ(moved.low / moved.speedup, c.low / c.speedup);
  EXPECT_DOUBLE_EQ(moved.high / moved.speedup, c.high / c.speedup);
  a.total_ms = 3;
  EXPECT_EQ(CompareProfiles(a, b).verdict, Verdict::kSame) << "equal calm times";
  EXPECT_EQ(CompareProfiles(StepProfile(), b).rounds, 0);
}

}  // namespace
}  // namespace evoq
