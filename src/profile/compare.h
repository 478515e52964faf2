// Whether one model is faster than another, from interleaved measurements.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/on_progress.h"
#include "profile/measure.h"

namespace evoq {

enum class Verdict { kFaster, kSlower, kSame };
const char* VerdictName(Verdict verdict);  // "faster", "slower", "same"

// Two measured times and how sure their ratio is. speedup is a_ms / b_ms, above 1 where B is
// faster; low and high bound it with 95% confidence, moved apart by what disturbed the measurement
// (Disturbance::Widening).
struct Comparison {
  double speedup = 1, low = 1, high = 1;
  Verdict verdict = Verdict::kSame;  // of B against A
  double a_ms = 0, b_ms = 0;         // 0 where only ratios are known
  int rounds = 0;                    // that speak: the times and the interval are from them
  double rested = 1;                 // the ratio of each one's fastest runs
  Disturbance disturbance;
};
// "3.210 ms beside 9.630 ms: 3.000x [2.900, 3.100]", B first.
std::string ToText(const Comparison& comparison);
// {"a_ms", "b_ms", "speedup", "speedup_low", "speedup_high", "verdict", "rounds", "disturbance"}.
nlohmann::json ToJson(const Comparison& comparison);

struct CompareOptions {
  double duration_s = 10;  // for both together, warm-up and fresh models included
  double warmup_ms = 200;  // once
  int rounds = 20;
  double wait_s = 0;  // of the duration: waits so long for other work to end (WaitForCalm)
  // Smaller differences are called the same however sure they are: two copies of one model differ
  // by about this much by where their memory lies.
  double least_effect = 0.01;
  OnProgress progress;
  Watch* watch = ThisMachine();
};

struct CompareRuns {
  Comparison result;
  RunTimes a, b;  // of all rounds
};

// Something to time.
struct Contestant {
  int threads = 1;
  // One that runs in memory of its own, on the threads of `pool` where that is given: whoever ran
  // last keeps spinning for a while, on the cores that another set of threads would need. It lives
  // no longer than what it was made from.
  std::function<Result<std::function<Status()>>(const std::shared_ptr<ThreadPool>& pool)> fresh;
};

// Makes both anew in each round, so that the luck of where memory lies is part of what varies, and
// runs them in turn, A first in even rounds. A round gives one time of each (RunTimes::CalmMs); see
// CompareRounds. Begins no run after the duration, but for three rounds of one run each.
Result<CompareRuns> CompareContestants(const Contestant& a, const Contestant& b,
                                       const CompareOptions& compare);
Result<CompareRuns> CompareExecutors(const Runnable& a, const Runnable& b,
                                     const CompareOptions& compare);

// One round's times.
struct RoundTimes {
  double a_ms = 0, b_ms = 0;
};
// CompareRatios of the rounds, with times that have exactly this ratio: a round's geometric mean of
// both says how fast the machine was in it; the times are a_ms = mean * sqrt(ratio) and b_ms = mean
// / sqrt(ratio) for the median of the means.
Comparison CompareRounds(std::span<const RoundTimes> rounds, double least_effect,
                         const Disturbance& disturbance = {});

// The median of the rounds' ratios (A's time over B's), and its 95% percentile interval over 2,000
// bootstrap samples of the rounds (Efron, "Bootstrap methods: another look at the jackknife",
// 1979); the samples are the same in every call.
Comparison CompareRatios(std::span<const double> ratios, double least_effect,
                         const Disturbance& disturbance = {});

// Two sets of single runs measured apart, in the order in which they ran. Neighbouring runs
// resemble each other, so blocks of runs are drawn, not runs (moving block bootstrap, Kuensch 1989;
// 25 blocks each).
Comparison CompareSamples(std::span<const double> a_ms, std::span<const double> b_ms,
                          double least_effect);

// A step that takes another time in B than in A; 0 where a model has no step of that name.
struct StepChange {
  std::string name;
  double a_ms = 0, b_ms = 0;
};
// The steps that surely differ (by four standard errors, from the parts of the measured time, and
// by 0.5% of A's run), the largest change first. The profiles were measured in turn.
std::vector<StepChange> ChangedSteps(const StepProfile& a, const StepProfile& b);

// Of profiles that were measured in turn: the ratio of their total_ms, with the interval of the
// turns' ratios around it.
Comparison CompareProfiles(const StepProfile& a, const StepProfile& b, double least_effect = 0.01);

}  // namespace evoq
