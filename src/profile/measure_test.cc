// What is concluded from times, on a clock that is made up.
#include "profile/measure.h"

#include <gtest/gtest.h>

#include "profile/test_watch.h"
#include "tests/sanitized.h"

namespace evoq {
namespace {

MeasureOptions OptionsOn(FakeWatch& watch) {
  MeasureOptions options;
  options.watch = &watch;
  options.warmup_ms = 0;
  options.duration_s = 0.1;
  options.min_runs = 1;
  return options;
}

// Something that takes `ms` in each run, and counts.
struct Call {
  FakeWatch& watch;
  double ms;
  int64_t runs = 0;
  std::function<Status()> Make() {
    return [this]() -> Status {
      ++runs;
      watch.Work(ms);
      return {};
    };
  }
};

TEST(Measure, RunsUntilTheDurationAndTheLeastRunsAreReached) {
  FakeWatch watch;
  Call call{watch, 10};
  MeasureOptions options = OptionsOn(watch);
  // Runs begin at 0, 10, ..., 90 ms.
  EXPECT_EQ(MeasureCalls(call.Make(), options)->runs(), 10);
  options.min_runs = 25;
  EXPECT_EQ(MeasureCalls(call.Make(), options)->runs(), 25);
  options.max_runs = 4;
  EXPECT_EQ(MeasureCalls(call.Make(), options)->runs(), 4);
}

TEST(Measure, WarmsUpWithoutCounting) {
  FakeWatch watch;
  Call call{watch, 10};
  MeasureOptions options = OptionsOn(watch);
  options.warmup_ms = 45;
  EXPECT_EQ(MeasureCalls(call.Make(), options)->runs(), 10);
  EXPECT_EQ(call.runs, 15) << "warm-up runs begin at 0, 10, 20, 30, 40 ms";
}

// How much of the duration was over when a run began, and no more than all of it.
TEST(Measure, TellsHowMuchIsDone) {
  FakeWatch watch;
  Call call{watch, 25};
  MeasureOptions options = OptionsOn(watch);
  options.min_runs = 6;
  std::vector<double> done;
  options.progress = [&](double fraction) {
    done.push_back(fraction);
    return Status();
  };
  ASSERT_TRUE(MeasureCalls(call.Make(), options));
  ASSERT_EQ(done.size(), 6u);
  for (size_t i = 0; i < done.size(); ++i)
    EXPECT_NEAR(done[i], std::min(1.0, 0.25 * static_cast<double>(i)), 1e-9);
}

TEST(Measure, WhoHearsOfProgressMayStopIt) {
  FakeWatch watch;
  Call call{watch, 25};
  MeasureOptions options = OptionsOn(watch);
  options.min_runs = 6;
  int told = 0;
  options.progress = [&](double) -> Status {
    if (++told < 3) return {};
    return Fail(ErrorCode::kConditionFailed, "stop");
  };
  const auto times = MeasureCalls(call.Make(), options);
  ASSERT_FALSE(times);
  EXPECT_EQ(times.error().message(), "stop");
  EXPECT_EQ(told, 3) << "and is not asked again";
}

TEST(Measure, ErrorsOfWarmUpRunsAreHandedOn) {
  FakeWatch watch;
  MeasureOptions options = OptionsOn(watch);
  options.warmup_ms = 1;
  int runs = 0;
  const auto failed = MeasureCalls(
      [&]() -> Status {
        watch.Work(1);
        return runs++ == 0 ? Fail(ErrorCode::kInternal, "the first one fails") : Status();
      },
      options);
  EXPECT_FALSE(failed);
  EXPECT_EQ(runs, 1);
}

// What a process had in memory at most: 64 MiB more once that much was written.
TEST(Measure, PeakOfMemory) {
  const int64_t before = PeakRssBytes();
  constexpr int64_t kMore = int64_t{64} << 20;
  const std::vector<char> more(static_cast<size_t>(kMore), 1);
  const int64_t after = PeakRssBytes();
  EXPECT_EQ(more.back(), 1);
  EXPECT_GE(after, kMore);
#ifndef EVOQ_SANITIZED  // which keep several times as much beside it
  EXPECT_LE(after, before + kMore + (8 << 20));
#endif
}

TEST(Measure, ALimitEndsWhatTheLeastRunsWouldContinue) {
  FakeWatch watch;
  Call call{watch, 10};
  MeasureOptions options = OptionsOn(watch);
  options.min_runs = 1000;
  options.limit_s = 0.055;
  EXPECT_EQ(MeasureCalls(call.Make(), options)->runs(), 6) << "begun at 0 to 50 ms";
  options.warmup_ms = 30;
  EXPECT_EQ(MeasureCalls(call.Make(), options)->runs(), 3) << "warm-up counts";
  options.warmup_ms = 1e9;
  EXPECT_EQ(MeasureCalls(call.Make(), options)->runs(), 1) << "one run there always is";
  options.limit_s = 0;
  call.runs = 0;
  EXPECT_EQ(MeasureCalls(call.Make(), options)->runs(), 1);
  EXPECT_EQ(call.runs, 1);
}

TEST(Measure, InterleavedRunsAlternateAndKeepTheirTimes) {
  FakeWatch watch;
  std::string order;
  const auto runs = [&](char name, double ms) {
    return std::function<Status()>([&watch, &order, name, ms]() -> Status {
      order += name;
      watch.Work(ms);
      return {};
    });
  };
  const std::function<Status()> calls[] = {runs('a', 4), runs('b', 6)};
  MeasureOptions options = OptionsOn(watch);
  options.duration_s = 0.03;
  const auto times = MeasureCallsInterleaved(calls, options);
  ASSERT_TRUE(times.has_value());
  EXPECT_EQ(order, "ababab");
  ASSERT_EQ((*times)[0].spans.size(), 3u);
  EXPECT_NEAR((*times)[0].spans[2].start_ms, 20, 1e-9);
  EXPECT_NEAR((*times)[1].spans[2].start_ms, 24, 1e-9);
  EXPECT_NEAR((*times)[0].spans[1].ms, 4, 1e-9);
  EXPECT_NEAR((*times)[1].median(), 6, 1e-9);
  const std::function<Status()> failing[] = {
      calls[0], [] { return Status(tl::unexpected(Error(ErrorCode::kInternal, "no"))); }};
  EXPECT_FALSE(MeasureCallsInterleaved(failing, options).has_value());
}

TEST(Measure, RunsAreInterruptedThatWaitedOrWereSwitched) {
  FakeWatch watch;
  int run = 0;
  const std::function<Status()> call = [&]() -> Status {
    switch (run++) {
      case 0: watch.Pass(10, 9.95); break;    // half a percent: what clocks cost
      case 1: watch.Pass(10, 9.85); break;    // more than one
      case 2: watch.Pass(0.1, 0.092); break;  // under 0.01 ms
      case 3: watch.Pass(0.1, 0.088); break;
      default: watch.Work(10), ++watch.switches;
    }
    return {};
  };
  MeasureOptions options = OptionsOn(watch);
  options.duration_s = 0;
  options.min_runs = 5;
  DisturbanceMeter meter(&watch);
  options.meter = &meter;
  const auto times = MeasureCalls(call, options);
  ASSERT_TRUE(times.has_value());
  std::vector<bool> interrupted;
  for (const RunSpan& span : times->spans) interrupted.push_back(span.interrupted);
  EXPECT_EQ(interrupted, (std::vector<bool>{false, true, false, true, true}));
  EXPECT_NEAR(times->spans[1].thread_ms, 9.85, 1e-9);
  EXPECT_NEAR(meter.Read().waited, (0.05 + 0.15 + 0.008 + 0.012) / 30.2, 1e-9);
}

RunTimes TimesOf(std::vector<RunSpan> spans) {
  RunTimes times;
  times.spans = std::move(spans);
  return times;
}

TEST(RunTimes, CalmIsTheLowerQuartileOfUndisturbedRuns) {
  const RunTimes times = TimesOf({{0, 5, 5, false},
                                  {0, 1, 1, false},
                                  {0, 0.5, 0.5, true},
                                  {0, 2, 2, false},
                                  {0, 90, 3, true},
                                  {0, 3, 3, false},
                                  {0, 4, 4, false}});
  EXPECT_DOUBLE_EQ(times.CalmMs(true), 2) << "of 1, 2, 3, 4, 5";
  EXPECT_DOUBLE_EQ(times.CalmMs(false), 2);
  EXPECT_DOUBLE_EQ(times.CalmMs(true, 5), 1.2);
  const RunTimes three = TimesOf(
      {{0, 7, 7, false}, {0, 1, 1, true}, {0, 5, 5, false}, {0, 6, 6, false}, {0, 9, 2, true}});
  EXPECT_DOUBLE_EQ(three.CalmMs(true), 5.5) << "three are enough";
}

TEST(RunTimes, WithoutUndisturbedRunsTheTimeOnAProcessorCounts) {
  const RunTimes times = TimesOf({{0, 30, 10, true},
                                  {0, 20, 12, true},
                                  {0, 8, 8, false},
                                  {0, 9, 9.001, false},
                                  {0, 50, 14, true}});
  EXPECT_DOUBLE_EQ(times.CalmMs(true), 9) << "two are too few: 8, 9, 10, 12, 14";
  EXPECT_DOUBLE_EQ(times.CalmMs(false), 9)
      << "of several threads one's time says nothing: 8, 9, 20, 30, 50";
  const RunTimes all = TimesOf({{0, 30, 10, true}, {0, 20, 12, true}, {0, 40, 14, true}});
  EXPECT_DOUBLE_EQ(all.CalmMs(true), 11);
  EXPECT_DOUBLE_EQ(all.CalmMs(false), 25);
  EXPECT_DOUBLE_EQ(TimesOf({{0, 30, 0, true}, {0, 20, 0, true}}).CalmMs(true), 22.5)
      << "a system that does not count a thread's time";
}

TEST(RunTimes, VariationIsTheStandardDeviationOverTheMean) {
  const RunTimes times{{2, 4, 4, 4, 5, 5, 7, 9}};  // the textbook's: mean 5, standard deviation 2
  EXPECT_DOUBLE_EQ(times.variation(), 0.4);
  EXPECT_DOUBLE_EQ(times.min(), 2);
  EXPECT_DOUBLE_EQ(times.max(), 9);
  EXPECT_EQ(times.runs(), 8);
}

Limits MadeUpLimits() {
  Limits limits;
  limits.int8_gops = 100;
  limits.bf16_gflops = 50;
  limits.fp32_gflops = 10;
  limits.l3_read_gbps = 40;
  limits.dram_read_gbps = 4;
  return limits;
}

TEST(Rates, OperationsPerSecondAndShareOfTheRoofline) {
  StepTime t;
  t.ms = 0.5;
  t.macs = 1'000'000;  // 2 million operations in 0.5 ms: 4 GOPS
  t.bytes = 100;
  t.peak = Peak::kInt8;
  SetRates(t, MadeUpLimits());
  EXPECT_DOUBLE_EQ(t.gops, 4);
  EXPECT_DOUBLE_EQ(t.roofline_share, 0.04);
  EXPECT_EQ(t.beyond_roofline, 1);
  t.peak = Peak::kBf16;
  SetRates(t, MadeUpLimits());
  EXPECT_DOUBLE_EQ(t.roofline_share, 0.08);
  t.peak = Peak::kFloat32;
  SetRates(t, MadeUpLimits());
  EXPECT_DOUBLE_EQ(t.roofline_share, 0.4);
  t.bytes = 10'000'000;  // 0.25 ms from the L3
  t.peak = Peak::kMemory;
  SetRates(t, MadeUpLimits());
  EXPECT_DOUBLE_EQ(t.roofline_share, 0.5);
}

TEST(Rates, NothingIsAboveTheRoofline) {
  StepTime t;
  t.ms = 0.01;
  t.macs = 1'000'000;  // 0.02 ms at 100 GOPS
  t.peak = Peak::kInt8;
  SetRates(t, MadeUpLimits());
  EXPECT_EQ(t.roofline_share, 1);
  EXPECT_DOUBLE_EQ(t.beyond_roofline, 2);
  EXPECT_DOUBLE_EQ(t.gops, 200) << "what was measured stays";
  t.ms = 0;
  SetRates(t, MadeUpLimits());
  EXPECT_EQ(t.gops, 0);
  EXPECT_EQ(t.roofline_share, 0);
}

TEST(Roofline, BytesBeyondTheL3ComeFromMemory) {
  const int64_t most = int64_t{16} << 20;
  EXPECT_DOUBLE_EQ(RooflineNs(MadeUpLimits(), Peak::kMemory, 0, most),
                   static_cast<double>(most) / 40);
  EXPECT_DOUBLE_EQ(RooflineNs(MadeUpLimits(), Peak::kMemory, 0, most + 40),
                   static_cast<double>(most + 40) / 4);
  EXPECT_DOUBLE_EQ(RooflineNs(MadeUpLimits(), Peak::kMemory, 0, 1000, 600), 600.0 / 4 + 400.0 / 40)
      << "those that no cache holds";
  EXPECT_DOUBLE_EQ(RooflineNs(MadeUpLimits(), Peak::kInt8, 10000, 1000, 600), 200);
  Limits none = MadeUpLimits();
  none.bf16_gflops = 0;
  EXPECT_DOUBLE_EQ(RooflineNs(none, Peak::kBf16, 1'000'000, 40),
                   RooflineNs(none, Peak::kFloat32, 1'000'000, 40))
      << "products of bfloat16 are those of float32";
  none.int8_gops = 0;
  EXPECT_DOUBLE_EQ(RooflineNs(none, Peak::kInt8, 1'000'000, 40), 1)
      << "no peak is known: only memory limits";
  EXPECT_EQ(RooflineNs(Limits(), Peak::kMemory, 0, 1000), 0);
}

// Weights and caches that a run reads come from memory if the cache does not hold them all; what
// steps hand on does not.
TEST(Roofline, WhatNoCacheHoldsFromRunToRunComesFromMemory) {
  auto graph = ParseGraph(R"(graph g
input %x: float32[4]
const %w: float32[4] = [1, 2, 3, 4]
one: %a: float32[4] = Relu(%x)
two: %y: float32[4] = Mul(%a, %w)
output %y
)");
  ASSERT_TRUE(graph) << graph.error().message();
  Program program;
  for (const char* name : {"one", "two"}) {
    Step& step = program.steps.emplace_back();
    step.node = graph->FindNode(name);
    step.bytes = 64;
  }
  program.graph = std::make_shared<const Graph>(std::move(*graph));
  EXPECT_EQ(MemoryBytes(program, 31), (std::vector<int64_t>{16, 16}));
  EXPECT_EQ(MemoryBytes(program, 32), (std::vector<int64_t>{0, 0}));
  program.steps[1].bytes = 4;
  EXPECT_EQ(MemoryBytes(program, 0), (std::vector<int64_t>{16, 4})) << "a part alone is looked up";
  StepTime t{.ms = 1, .peak = Peak::kMemory, .bytes = 40000, .memory_bytes = 4000};
  SetRates(t, MadeUpLimits());
  EXPECT_DOUBLE_EQ(t.roofline_share, (4000.0 / 4 + 36000.0 / 40) / 1e6);
}

StepProfile TwoSteps() {
  StepProfile profile;
  profile.steps.resize(2);
  profile.steps[0].macs = 6'000'000;
  profile.steps[0].peak = Peak::kInt8;
  SetTimes(profile, {10, 12, {6, 2}}, MadeUpLimits());
  return profile;
}

TEST(StepProfile, TimesAddUp) {
  const StepProfile p = TwoSteps();
  EXPECT_EQ(p.total_ms, 10);
  EXPECT_EQ(p.steps_ms, 8);
  EXPECT_EQ(p.host_ms, 4);
  EXPECT_EQ(p.tax_ms(), 2) << "8 + 4 - 10";
  EXPECT_DOUBLE_EQ(p.steps[0].share, 0.75);
  EXPECT_DOUBLE_EQ(p.steps[1].share, 0.25);
  EXPECT_DOUBLE_EQ(p.steps[0].gops, 2);
}

// Steps of 6 and 2 ms; a run of 8 ms has no clock in it, of 7 ms 0.5 ms a step, of 1 ms 3.5 ms,
// more than the second takes.
TEST(StepProfile, StepsWithoutTheClock) {
  StepProfile p = TwoSteps();
  const auto without = [&](double total_ms) {
    p.total_ms = total_ms;
    return std::pair(WithoutClockMs(p, 0), WithoutClockMs(p, 1));
  };
  EXPECT_EQ(without(10), std::pair(6.0, 2.0));
  EXPECT_EQ(without(8), std::pair(6.0, 2.0));
  EXPECT_EQ(without(7), std::pair(5.5, 1.5));
  EXPECT_EQ(without(1), std::pair(2.5, 0.2 * 2));
}

TEST(StepProfile, ScaledToAnotherTotal) {
  StepProfile p = TwoSteps();
  p.parts = {{9, 11, {5, 3}}};
  p.turns_ms = {9, 11};
  p.recorded = {{4, 10, {6, 2}}};
  p.steps[0].median_ms = 7;
  ScaleTo(p, 5);
  EXPECT_DOUBLE_EQ(p.total_ms, 5);
  EXPECT_DOUBLE_EQ(p.steps_ms, 4);
  EXPECT_DOUBLE_EQ(p.host_ms, 2);
  EXPECT_DOUBLE_EQ(p.tax_ms(), 1);
  EXPECT_DOUBLE_EQ(p.steps[0].ms, 3);
  EXPECT_DOUBLE_EQ(p.steps[0].median_ms, 3.5);
  EXPECT_DOUBLE_EQ(p.steps[0].share, 0.75);
  EXPECT_DOUBLE_EQ(p.steps[0].gops, 4);
  EXPECT_DOUBLE_EQ(p.steps[0].roofline_share, 0.04);
  EXPECT_DOUBLE_EQ(p.parts[0].total_ms, 4.5);
  EXPECT_DOUBLE_EQ(p.parts[0].timed_ms, 5.5);
  EXPECT_DOUBLE_EQ(p.parts[0].steps_ms[1], 1.5);
  EXPECT_DOUBLE_EQ(p.turns_ms[1], 5.5);
  EXPECT_DOUBLE_EQ(p.recorded[0].start_ms, 2);
  EXPECT_DOUBLE_EQ(p.recorded[0].steps_ms[0], 3);
  ScaleTo(p, 0.1);  // 2 GOPS become 200, of 100
  EXPECT_EQ(p.steps[0].roofline_share, 1);
  EXPECT_NEAR(p.steps[0].beyond_roofline, 2, 1e-9);
  StepProfile empty;
  ScaleTo(empty, 5);
  EXPECT_EQ(empty.total_ms, 0);
}

}  // namespace
}  // namespace evoq
