#include "profile/disturbance.h"

#include <gtest/gtest.h>

#include <cmath>

#include "profile/test_watch.h"

namespace evoq {
namespace {

TEST(Disturbance, SharesAreOfTheProcessorsLessOneTickEach) {
  const MachineCounters before{100, 20, 500, 40, 1000, 2}, after{110, 29.8, 518, 41.02, 1030, 2};
  const Disturbance d = Between(before, after);
  EXPECT_DOUBLE_EQ(d.seconds, 10);
  EXPECT_NEAR(d.others, (18 - 9.8 - 0.02) / 20, 1e-12);
  EXPECT_NEAR(d.stolen, (1.02 - 0.02) / 20, 1e-12);
  EXPECT_EQ(d.switches, 30);
  EXPECT_EQ(d.waited, 0);
  EXPECT_EQ(d.slowed, 0);
}

TEST(Disturbance, WhatTheSystemDoesNotTellIsNotCounted) {
  EXPECT_EQ(Between({0, 0, -1, 0, 0, 2}, {10, 1, -1, 0, 0, 2}).others, 0);
  EXPECT_EQ(Between({0, 0, -1, 0, 0, 2}, {10, 1, 15, 0, 0, 2}).others, 0);
  EXPECT_EQ(Between({0, 0, 5, 0, 0, 2}, {10, 9, 6, 0, 0, 2}).others, 0)
      << "own time beyond all time: ticks";
  EXPECT_EQ(Between({0, 0, 0, 0, 0, 1}, {10, 0, 99, 0, 0, 1}).others, 1);
  EXPECT_EQ(Between({5, 0, 0, 0, 9, 1}, {5, 0, 3, 4, 7, 1}).others, 0) << "no time at all";
  EXPECT_EQ(Between({5, 0, 0, 0, 9, 1}, {5, 0, 3, 4, 7, 1}).switches, 0);
}

TEST(Disturbance, DistortionWeighsWhatHappensOnTheSameProcessorTwice) {
  Disturbance d;
  d.others = 0.4, d.stolen = 0.1, d.waited = 0.2, d.slowed = 0.2;
  EXPECT_NEAR(d.distortion(), 0.1 + 0.05 + 0.1 + 0.05, 1e-12);
  // 4^0.3 * exp(0.3 * 0.03) = 1.515717 * 1.009041.
  EXPECT_NEAR(d.Widening(4), 1.529420, 1e-5);
  EXPECT_NEAR(d.Widening(0.25), 1.529420, 1e-5) << "the same for the other way round";
  EXPECT_NEAR(d.Widening(1), 1.009041, 1e-6);
  EXPECT_EQ(Disturbance().Widening(10), 1);
}

TEST(Disturbance, LimitsOfWhatIsToldAndOfWhatIsTooMuch) {
  Disturbance d;
  d.waited = 0.0398;
  EXPECT_FALSE(d.notable());
  EXPECT_EQ(ToText(d), "");
  d.waited = 0.0402;
  EXPECT_TRUE(d.notable());
  d.waited = 0.2998;
  EXPECT_FALSE(d.too_much());
  d.waited = 0.3002;
  EXPECT_TRUE(d.too_much());
}

TEST(Disturbance, TextNamesWhatDisturbedByItsShare) {
  Disturbance d;
  d.others = 0.67, d.waited = 0.314, d.stolen = 0.019;
  EXPECT_EQ(
      ToText(d),
      "other processes used 67% of the processors, runs waited for a processor 31% of their time");
  d.others = 0, d.waited = 0, d.stolen = 0.25, d.slowed = 0.5;
  EXPECT_EQ(ToText(d),
            "other virtual machines took 25% of the processors, cores were 50% slower than at "
            "their fastest");
  Disturbance small;
  small.waited = 0.5, small.slowed = 0.021, small.others = 0.019;
  EXPECT_EQ(ToText(small),
            "runs waited for a processor 50% of their time, cores were 2% slower than at their "
            "fastest");
  const nlohmann::json json = ToJson(d);
  EXPECT_DOUBLE_EQ(json["stolen_share"], 0.25);
  EXPECT_DOUBLE_EQ(json["slowed"], 0.5);
  EXPECT_DOUBLE_EQ(json["distortion"], 0.25);
  EXPECT_EQ(json["too_much"], true);
}

TEST(DisturbanceMeter, AddsUpRunsAndRounds) {
  FakeWatch watch;
  DisturbanceMeter meter(&watch);
  meter.Run(10, 7);
  meter.Run(10, 10.001);  // clocks differ: no time was won
  const double loops[] = {4, 2, 2.4, 2}, figures[] = {40, 10, 20, 30};
  for (int i = 0; i < 4; ++i) {
    watch.loop_ms = loops[i];
    meter.Round(figures[i]);
  }
  watch.others = 1.5;
  watch.Work(1000);
  watch.stolen_s += 0.52;
  watch.switches += 5;
  const Disturbance d = meter.Read();
  EXPECT_DOUBLE_EQ(d.seconds, 1);
  EXPECT_NEAR(d.others, (1.5 - 0.02) / 2, 1e-9);
  EXPECT_NEAR(d.stolen, (0.52 - 0.02) / 2, 1e-9);
  EXPECT_NEAR(d.waited, 3.0 / 20, 1e-12);
  EXPECT_NEAR(d.slowed, 2.2 / 2 - 1, 1e-12) << "median of 2, 2, 2.4, 4 over the fastest";
  EXPECT_NEAR(d.spread, (32.5 - 17.5) / 25, 1e-12) << "quartiles of 10, 20, 30, 40";
  EXPECT_EQ(d.switches, 5);
}

TEST(WaitForCalm, WaitsUntilEnoughProcessorsAreFreeAndNoLonger) {
  FakeWatch busy;
  busy.others = 2;
  EXPECT_NEAR(WaitForCalm(&busy, 1, 3), 3, 1e-9) << "until its time is up";
  EXPECT_EQ(WaitForCalm(&busy, 1, 0), 0);

  FakeWatch one;
  one.others = 1;  // of two
  EXPECT_NEAR(WaitForCalm(&one, 1, 3), 0.2, 1e-9)
      << "one look, and there is a processor for one thread";
  EXPECT_NEAR(WaitForCalm(&one, 2, 3), 3, 1e-9) << "none for two";

  // Other work ends after a second.
  struct Ending : FakeWatch {
    void SleepMs(double ms) override {
      others = wall_ms - 1e6 < 999 ? 2 : 0;
      FakeWatch::SleepMs(ms);
    }
  } ending;
  EXPECT_NEAR(WaitForCalm(&ending, 2, 5), 1.2, 1e-9);

  FakeWatch silent;
  silent.busy_s = -1;
  silent.others = 2;
  EXPECT_EQ(WaitForCalm(&silent, 1, 3), 0);
  EXPECT_EQ(silent.sleeps, 0);

  FakeWatch idle;
  EXPECT_NEAR(WaitForCalm(&idle, 64, 3), 0.2, 1e-9)
      << "more threads than processors need all of these";
}

TEST(Watch, CountsOfThisMachineOnlyGrow) {
  Watch* const watch = ThisMachine();
  const MachineCounters before = watch->Counters();
  const double thread = watch->ThreadMs();
  EXPECT_GT(watch->LoopMs(), 0);
  const MachineCounters after = watch->Counters();
  EXPECT_GT(after.wall_s, before.wall_s);
  EXPECT_GE(after.own_s, before.own_s);
  EXPECT_GE(after.busy_s, before.busy_s);
  EXPECT_GE(after.stolen_s, before.stolen_s);
  EXPECT_GE(after.processors, 1);
  EXPECT_GT(watch->ThreadMs(), thread);
  const int64_t switches = watch->Switches();
  EXPECT_GE(watch->Switches(), switches);
}

}  // namespace
}  // namespace evoq
