// Whether one model is faster than another, from interleaved measurements.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "profile/measure.h"

namespace evoq {

enum class Verdict { kFaster, kSlower, kSame };
const char* VerdictName(Verdict verdict);  // "faster", "slower", "same"

// speedup: time of A over time of B, above 1 where B is faster; low and high bound it with 95% confidence.
struct Comparison {
  double speedup = 1, low = 1, high = 1;
  Verdict verdict = Verdict::kSame;  // of B against A
};

struct CompareOptions {
  double duration_s = 10;  // for both together
  double warmup_ms = 200;  // once
  int rounds = 20;
  // Smaller differences are called the same however sure they are: two copies of one model differ by about this much by
  // where their memory lies.
  double least_effect = 0.01;
  std::function<void(double fraction)> progress;  // may be null
};

struct CompareRuns {
  Comparison result;
  RunTimes a, b;  // of all rounds
};

// Makes fresh executors like `a` and `b` in each round, so that the luck of where memory lies is part of what varies, and runs them in turn, A
// first in even rounds. A round gives one ratio, of lower quartiles: what disturbs runs only ever adds time; see CompareRatios.
Result<CompareRuns> CompareExecutors(const Executor& a, const Executor& b, const CompareOptions& compare);

// The median of the rounds' ratios (A's time over B's), and its 95% percentile interval over 2,000 bootstrap samples of the
// rounds (Efron, "Bootstrap methods: another look at the jackknife", 1979); the samples are the same in every call.
Comparison CompareRatios(std::span<const double> ratios, double least_effect);

// Two sets of single runs measured apart, in the order in which they ran. Neighbouring runs resemble each other, so blocks of
// runs are drawn, not runs (moving block bootstrap, Kuensch 1989; 25 blocks each).
Comparison CompareSamples(std::span<const double> a_ms, std::span<const double> b_ms, double least_effect);

// A step that takes another time in B than in A; 0 where a model has no step of that name.
struct StepChange {
  std::string name;
  double a_ms = 0, b_ms = 0;
};
// The steps that surely differ (by four standard errors, from the parts of the measured time, and by 0.5% of A's run), the largest change first.
// The profiles were measured in turn.
std::vector<StepChange> ChangedSteps(const StepProfile& a, const StepProfile& b);

}  // namespace evoq
