// Steps of programs that are made up, measured on a clock that is made up.
#include <gtest/gtest.h>

#include <array>

#include "profile/compare.h"
#include "profile/measure.h"
#include "profile/test_watch.h"

namespace evoq {
namespace {

Program TwoSteps() {
  auto graph = ParseGraph(R"(graph g
input %x: float32[4]
one: %a: float32[4] = Relu(%x)
two: %y: float32[2, 2] = Neg(%a)
output %y
)");
  EXPECT_TRUE(graph) << graph.error().message();
  Program program;
  for (const char* name : {"one", "two"}) {
    Step& step = program.steps.emplace_back();
    step.node = graph->FindNode(name);
    step.decision.kernel = std::string("kernel of ") + name;
    step.decision.precision = Precision::kFloat32;
  }
  program.steps[0].macs = 100, program.steps[0].bytes = 32;
  program.graph = std::make_shared<const Graph>(std::move(*graph));
  return program;
}

// What a pair of runs takes, in ms; by default 3.5 without and 3.75 with step timing, of which the
// steps have 2 and 1.
struct PairMs {
  double plain = 3.5, timed = 3.75;
  std::array<double, 2> steps = {2, 1};
};

// Counts what all fresh ones of it do.
struct Made {
  FakeWatch& watch;
  std::function<PairMs(int pair)> ms = [](int) { return PairMs(); };
  int pairs = 0, fresh = 0, fails_at = -1;
  std::string* order = nullptr;
  char name = ' ';
};

class MadeRunnable : public Runnable {
 public:
  explicit MadeRunnable(Made& made) : made_(made) {}
  Result<std::unique_ptr<Runnable>> Fresh(std::shared_ptr<ThreadPool>) const override {
    ++made_.fresh;
    return std::unique_ptr<Runnable>(std::make_unique<MadeRunnable>(made_));
  }
  const Program& program() const override { return program_; }
  const std::vector<KernelPlan>& plans() const override { return plans_; }
  int threads() const override { return 1; }
  int64_t repeats() const override { return 3; }
  const std::vector<TensorType>& input_types() const override { return types_; }
  const std::vector<TensorType>& output_types() const override { return types_; }
  int64_t arena_bytes() const override { return 0; }
  Status Run(std::span<const Tensor>, std::span<Tensor>) override {
    if (made_.pairs == made_.fails_at) return Fail(ErrorCode::kInternal, "the run fails");
    if (made_.order != nullptr) *made_.order += made_.name;
    made_.watch.Work(made_.ms(made_.pairs).plain);
    return {};
  }
  Status RunTimed(std::span<const Tensor>, std::span<Tensor>, std::span<int64_t> ns) override {
    if (++made_.pairs == made_.fails_at) return Fail(ErrorCode::kInternal, "the timed run fails");
    const PairMs ms = made_.ms(made_.pairs - 1);
    made_.watch.Work(ms.timed);
    for (size_t s = 0; s < ns.size(); ++s) ns[s] = std::llround(1e6 * ms.steps[s]);
    return {};
  }

 private:
  Made& made_;
  const Program program_ = TwoSteps();
  const std::vector<KernelPlan> plans_ = {{.code = "fast"}, {}};
  const std::vector<TensorType> types_;
};

MeasureOptions On(FakeWatch& watch, double duration_s) {
  MeasureOptions options;
  options.watch = &watch;
  options.warmup_ms = 0;
  options.duration_s = duration_s;
  options.min_runs = 1;
  return options;
}

StepProfile Profile(Made& made, const MeasureOptions& options) {
  MadeRunnable runnable(made);
  RunBuffers buffers = MakeBuffers(runnable);
  const auto profile = MeasureSteps(runnable, buffers, Limits(), options);
  EXPECT_TRUE(profile) << profile.error().message();
  return profile ? *profile : StepProfile();
}

// With 0.25 ms of the caller's work before each run, a pair takes 7.75 ms and a block two pairs, as
// one is under 10 ms; each block begins with a pair that does not count. Seven blocks have 108.5
// ms.
TEST(MeasureSteps, ConstantTimesByHand) {
  FakeWatch watch;
  Made made{watch};
  MeasureOptions options = On(watch, 0.1);
  options.warmup_ms = 20;
  options.host = [&] { watch.Work(0.25); };
  std::vector<double> done;
  options.progress = [&](double fraction) {
    done.push_back(fraction);
    return Status();
  };
  const StepProfile p = Profile(made, options);
  EXPECT_EQ(made.pairs, 3 + 7 * 3) << "warm-up pairs begin at 0, 7.75 and 15.5 ms";
  EXPECT_EQ(p.runs, 14);
  EXPECT_DOUBLE_EQ(p.total_ms, 3.75);
  EXPECT_DOUBLE_EQ(p.steps_ms, 3);
  EXPECT_DOUBLE_EQ(p.host_ms, 1) << "4 - 3";
  EXPECT_NEAR(p.tax_ms(), 0.25, 1e-12);
  EXPECT_NEAR(p.busy, 0, 1e-12);
  ASSERT_EQ(p.steps.size(), 2u);
  EXPECT_DOUBLE_EQ(p.steps[0].ms, 2);
  EXPECT_NEAR(p.steps[0].mean_ms, 2, 1e-12);
  EXPECT_DOUBLE_EQ(p.steps[1].median_ms, 1);
  EXPECT_DOUBLE_EQ(p.steps[1].share, 1.0 / 3);
  EXPECT_EQ(p.turns_ms, std::vector<double>(7, 3.75));
  EXPECT_TRUE(p.parts.empty());
  ASSERT_EQ(p.recorded.size(), 28u);
  EXPECT_EQ(p.recorded[0].start_ms, 0);
  EXPECT_EQ(p.recorded[0].ms, 3.75);
  EXPECT_TRUE(p.recorded[0].steps_ms.empty());
  EXPECT_EQ(p.recorded[1].start_ms, 3.75);
  EXPECT_EQ(p.recorded[1].ms, 4);
  EXPECT_EQ(p.recorded[1].steps_ms, (std::vector<double>{2, 1}));
  EXPECT_EQ(p.recorded[4].start_ms, 3 * 7.75) << "behind the pair that does not count";
  EXPECT_EQ(p.disturbance.waited, 0);
  EXPECT_NEAR(p.disturbance.seconds, 24 * 7.75 / 1e3, 1e-9);
  ASSERT_EQ(done.size(), 7u);
  EXPECT_DOUBLE_EQ(done[0], 0.155);
  EXPECT_EQ(done[6], 1);
}

TEST(MeasureSteps, WhatAStepIs) {
  FakeWatch watch;
  Made made{watch};
  const StepProfile p = Profile(made, On(watch, 0.01));
  EXPECT_EQ(p.steps[0].name, "one");
  EXPECT_EQ(p.steps[0].op, "Relu");
  EXPECT_EQ(p.steps[0].kernel, "kernel of one");
  EXPECT_EQ(p.steps[0].variant, "fast");
  EXPECT_EQ(p.steps[0].precision, Precision::kFloat32);
  EXPECT_EQ(p.steps[0].shape, "[4]");
  EXPECT_EQ(p.steps[1].shape, "[2, 2]");
  EXPECT_EQ(p.steps[0].macs, 300) << "three times in a run";
  EXPECT_EQ(p.steps[0].bytes, 96);
  EXPECT_EQ(p.steps[0].peak, Peak::kMemory) << "of a kernel that nobody knows";
}

// Blocks of two pairs of 7.25 ms, until all wishes are met: a duration, so many runs, and not more
// than the most; 40 runs of all are recorded, and 24 blocks make eight parts.
TEST(MeasureSteps, HowLong) {
  FakeWatch watch;
  Made made{watch};
  const auto profile = [&](double duration_s, int64_t least, int64_t most) {
    MeasureOptions options = On(watch, duration_s);
    options.min_runs = least, options.max_runs = most;
    return Profile(made, options);
  };
  EXPECT_EQ(profile(0.029, 1, 1000).runs, 4) << "29 ms";
  EXPECT_EQ(profile(0.0291, 1, 1000).runs, 6);
  EXPECT_EQ(profile(0, 6, 1000).runs, 6);
  EXPECT_EQ(profile(0, 7, 1000).runs, 8);
  EXPECT_EQ(profile(1, 1, 6).runs, 6);
  EXPECT_EQ(profile(1, 1, 5).runs, 6);
  EXPECT_EQ(profile(0, 40, 1000).recorded.size(), 40u);
  EXPECT_EQ(profile(0, 46, 1000).parts.size(), 0u);
  EXPECT_EQ(profile(0, 48, 1000).parts.size(), 8u);
}

// Twelve pairs of 0.875 ms are a block: eleven are under 10 ms. Pair i of 0 to 11 takes (i + 1) /
// 32 ms without step timing: of the middle half, without the three fastest and the three slowest,
// 6.5 / 32 in the mean. The steps are those of the runs that the middle half with step timing has:
// the same pairs.
TEST(MeasureSteps, ABlockIsTheMeanOfItsMiddleHalf) {
  FakeWatch watch;
  Made made{watch, [](int pair) {
              const int i = pair - 1;  // the first one does not count
              if (i < 0) return PairMs{0.5, 0.5, {0, 0}};
              return PairMs{(i + 1) / 32.0, 0.875 - (i + 1) / 32.0, {0.001 * i * i, 0.125}};
            }};
  const StepProfile p = Profile(made, On(watch, 0.01));
  EXPECT_EQ(p.runs, 12);
  EXPECT_DOUBLE_EQ(p.total_ms, 6.5 / 32);
  EXPECT_NEAR(p.steps[0].ms, 0.001 * (9 + 16 + 25 + 36 + 49 + 64) / 6, 1e-12);
  EXPECT_DOUBLE_EQ(p.steps[1].ms, 0.125);
  EXPECT_NEAR(p.host_ms, 0.875 - 6.5 / 32 - p.steps[0].ms - 0.125, 1e-12);
  // Of all runs: 506 / 12, and between 25 and 36.
  EXPECT_NEAR(p.steps[0].mean_ms, 0.001 * 506 / 12, 1e-12);
  EXPECT_NEAR(p.steps[0].median_ms, 0.001 * 30.5, 1e-12);
}

// Ten blocks whose runs take so many times 16 ms; the second fastest is 1.01, and what is within 3%
// of that counts: 1, 1.01, 1.02 and 1.04, 1.0175 in the mean. The median of all is 1.525.
TEST(MeasureSteps, CalmBlocksCount) {
  constexpr double kTimes[] = {2, 1.05, 1.02, 2, 1.04, 2, 1.01, 2, 1, 2};
  FakeWatch watch;
  Made made{watch, [&](int pair) {
              const double times = kTimes[pair / 3 % 10];  // a block: one pair, and two that count
              return PairMs{16 * times, 18 * times, {8 * times, 4 * times}};
            }};
  MeasureOptions options = On(watch, 0);
  options.min_runs = 20;
  const StepProfile p = Profile(made, options);
  EXPECT_EQ(p.runs, 20);
  EXPECT_NEAR(p.total_ms, 16 * 1.0175, 1e-9);
  EXPECT_NEAR(p.steps[0].ms, 8 * 1.0175, 1e-6);
  EXPECT_NEAR(p.steps[1].ms, 4 * 1.0175, 1e-6);
  EXPECT_NEAR(p.host_ms, 6 * 1.0175, 1e-6);
  EXPECT_NEAR(p.busy, 1.525 / 1.0175 - 1, 1e-9);
  ASSERT_EQ(p.turns_ms.size(), 10u);
  EXPECT_NEAR(p.turns_ms[1], 16 * 1.05, 1e-9) << "in the order of time";
}

// Blocks in which either the runs without or those with step timing are disturbed tell what the
// others take: timing adds the 2 ms that it does.
TEST(MeasureSteps, CalmForOneKindOfRuns) {
  FakeWatch watch;
  Made made{watch, [&](int pair) {
              const bool even = pair / 3 % 2 == 0;
              return PairMs{even ? 16.0 : 24, even ? 27.0 : 18, {even ? 16.0 : 8, 4}};
            }};
  MeasureOptions options = On(watch, 0);
  options.min_runs = 20;
  const StepProfile p = Profile(made, options);
  EXPECT_NEAR(p.total_ms, 16, 1e-9);
  EXPECT_NEAR(p.steps[0].ms, 8, 1e-6);
  EXPECT_NEAR(p.steps_ms + p.host_ms, 18, 1e-6);
  EXPECT_NEAR(p.tax_ms(), 2, 1e-6);
}

// 24 blocks, of which three after the other are a part: block k takes 16 + k / 3 ms, so part j
// takes 16 + j.
TEST(MeasureSteps, PartsAreEighthsOfTheBlocks) {
  FakeWatch watch;
  Made made{watch, [](int pair) {
              const double part = pair / 9;  // three blocks of three pairs
              return PairMs{16 + part, 18 + part, {1, 1 + part}};
            }};
  MeasureOptions options = On(watch, 0);
  options.min_runs = 48;
  const StepProfile p = Profile(made, options);
  ASSERT_EQ(p.parts.size(), 8u);
  for (int j = 0; j < 8; ++j) {
    const StepSums& part = p.parts[static_cast<size_t>(j)];
    EXPECT_NEAR(part.total_ms, 16 + j, 1e-9);
    EXPECT_NEAR(part.timed_ms, 18 + j, 1e-9);
    ASSERT_EQ(part.steps_ms.size(), 2u);
    EXPECT_NEAR(part.steps_ms[0], 1, 1e-6);
    EXPECT_NEAR(part.steps_ms[1], 1 + j, 1e-6);
  }
}

// Whole runs alone: of one, of two in turn, and of fresh ones of two that are compared.
TEST(MeasureRuns, WholeRunsOfRunnables) {
  FakeWatch watch;
  Made slow{watch, [](int) { return PairMs{7, 100, {}}; }}, quick{watch};
  MadeRunnable a(slow), b(quick);
  std::vector<RunBuffers> buffers = {MakeBuffers(a), MakeBuffers(b)};
  const auto one = MeasureRuns(b, buffers[1], On(watch, 0.035));
  ASSERT_TRUE(one) << one.error().message();
  EXPECT_EQ(one->runs(), 10) << "35 ms";
  EXPECT_DOUBLE_EQ(one->median(), 3.5);
  Runnable* const both[] = {&a, &b};
  const auto two = MeasureInterleaved(both, buffers, On(watch, 0.042));
  ASSERT_TRUE(two) << two.error().message();
  EXPECT_EQ((*two)[0].runs(), 4);
  EXPECT_DOUBLE_EQ((*two)[0].median(), 7);
  EXPECT_DOUBLE_EQ((*two)[1].median(), 3.5);
  CompareOptions options;
  options.watch = &watch;
  options.duration_s = 4;
  options.rounds = 4;
  std::vector<double> done;
  options.progress = [&](double fraction) {
    done.push_back(fraction);
    return Status();
  };
  const auto compared = CompareExecutors(a, b, options);
  ASSERT_TRUE(compared) << compared.error().message();
  EXPECT_NEAR(compared->result.speedup, 2, 1e-9);
  EXPECT_NEAR(compared->result.a_ms, 7, 1e-9);
  EXPECT_EQ(slow.fresh, 4) << "another one in each round";
  EXPECT_EQ(quick.fresh, 4);
  EXPECT_EQ(done, (std::vector<double>{0.25, 0.5, 0.75, 1}));
  options.progress = [](double) -> Status { return Fail(ErrorCode::kConditionFailed, "stop"); };
  const auto stopped = CompareExecutors(a, b, options);
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().message(), "stop");
  quick.fails_at = quick.pairs;
  EXPECT_FALSE(MeasureRuns(b, buffers[1], On(watch, 0.035)));
  EXPECT_FALSE(MeasureInterleaved(both, buffers, On(watch, 0.035)));
  EXPECT_FALSE(CompareExecutors(a, b, options));
}

class InterleavedTest : public ::testing::Test {
 protected:
  Result<std::vector<StepProfile>> Measure(const MeasureOptions& options) {
    const MadeRunnable a(a_), b(b_);
    const Runnable* const both[] = {&a, &b};
    return MeasureStepsInterleaved(both, Limits(), options);
  }

  FakeWatch watch_;
  std::string order_;
  Made a_{.watch = watch_, .order = &order_, .name = 'a'};
  Made b_{.watch = watch_, .order = &order_, .name = 'b'};
};

// In each turn one block of each, three pairs, by fresh ones; whose block is first changes. What
// the caller does for each run is done for the last one alone.
TEST_F(InterleavedTest, TurnsOfFreshOnes) {
  MeasureOptions options = On(watch_, 0);
  options.min_runs = 6;
  options.host = [&] { watch_.Work(0.25); };
  const auto profiles = Measure(options);
  ASSERT_TRUE(profiles) << profiles.error().message();
  EXPECT_EQ(order_, "aaabbbbbbaaaaaabbb");
  EXPECT_EQ(a_.fresh, 3);
  EXPECT_EQ(b_.fresh, 3);
  EXPECT_DOUBLE_EQ((*profiles)[0].total_ms, 3.5);
  EXPECT_DOUBLE_EQ((*profiles)[1].total_ms, 3.75);
  EXPECT_EQ((*profiles)[0].turns_ms.size(), 3u);
}

// Two are measured on until both have parts, or for three times as long as was asked for: blocks of
// a count 14.5 ms and of b 29 ms or more.
TEST_F(InterleavedTest, UntilThereAreParts) {
  b_.ms = [](int) { return PairMs{7, 7.5, {2, 1}}; };
  const auto turns = [&](double duration_s) {
    return Measure(On(watch_, duration_s))->at(0).turns_ms.size();
  };
  EXPECT_EQ(turns(0.2), 24u) << "348 of 600 ms";
  EXPECT_EQ(turns(0.1), 21u) << "304.5 of 300 ms";
  EXPECT_EQ(turns(0.4), 28u) << "both for 0.4 s";
}

// The figure of a round is a's block over b's: 0.5 in every second one, else 1. Quartiles 0.5 and
// 1, median 0.75 of four rounds.
TEST_F(InterleavedTest, TheSpreadOfTheRatio) {
  b_.ms = [](int pair) { return pair / 3 % 2 == 0 ? PairMs() : PairMs{7, 7.5, {4, 2}}; };
  MeasureOptions options = On(watch_, 0);
  options.min_runs = 8;
  const auto profiles = Measure(options);
  ASSERT_TRUE(profiles);
  EXPECT_NEAR((*profiles)[0].disturbance.spread, 0.5 / 0.75, 1e-12);
  EXPECT_EQ((*profiles)[1].disturbance.spread, (*profiles)[0].disturbance.spread);
}

TEST_F(InterleavedTest, ErrorsOfRunsAreHandedOn) {
  for (const int at : {0, 1, 2, 3}) {
    a_.pairs = 0;
    a_.fails_at = at;
    MeasureOptions options = On(watch_, 0);
    options.warmup_ms = at < 2 ? 1 : 0;
    const auto profiles = Measure(options);
    ASSERT_FALSE(profiles) << at;
    EXPECT_NE(profiles.error().message().find("run fails"), std::string::npos);
  }
}

}  // namespace
}  // namespace evoq
