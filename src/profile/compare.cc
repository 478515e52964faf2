#include "profile/compare.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "base/check.h"
#include "base/median.h"
#include "profile/interval.h"

namespace evoq {
namespace {

constexpr int kResamples = 2000;
constexpr double kCalmPercent = 25;  // of a round's runs: other work may disturb half of them and more

// An even choice of [0, count), the same on every machine (std::uniform_int_distribution is not).
size_t Choose(std::mt19937_64& random, size_t count) { return static_cast<size_t>((random() >> 32) * count >> 32); }

Comparison Judge(double speedup, std::vector<double>& resampled, double least_effect) {
  std::sort(resampled.begin(), resampled.end());
  Comparison c;
  c.speedup = speedup;
  c.low = resampled[static_cast<size_t>(0.025 * kResamples)];
  c.high = resampled[static_cast<size_t>(0.975 * kResamples) - 1];
  if (c.low > 1 && speedup > 1 + least_effect) c.verdict = Verdict::kFaster;
  if (c.high < 1 && speedup < 1 / (1 + least_effect)) c.verdict = Verdict::kSlower;
  return c;
}

// The median of blocks drawn from `runs`, about as many runs as there are.
double BlockMedian(std::span<const double> runs, std::mt19937_64& random, std::vector<double>& drawn) {
  const size_t block = std::max<size_t>(1, runs.size() / 25);
  drawn.clear();
  while (drawn.size() < runs.size()) {
    const size_t begin = Choose(random, runs.size() - block + 1);
    drawn.insert(drawn.end(), runs.begin() + static_cast<ptrdiff_t>(begin), runs.begin() + static_cast<ptrdiff_t>(begin + block));
  }
  return Median(drawn);
}

}  // namespace

std::vector<StepChange> ChangedSteps(const StepProfile& a, const StepProfile& b) {
  constexpr double kLeastShare = 0.005;
  const size_t parts = std::min(a.parts.size(), b.parts.size());
  std::map<std::string, std::pair<int, int>> steps;  // in a and in b, -1 where it has none
  for (size_t i = 0; i < a.steps.size(); ++i) steps.emplace(a.steps[i].name, std::pair(-1, -1)).first->second.first = static_cast<int>(i);
  for (size_t i = 0; i < b.steps.size(); ++i) steps.emplace(b.steps[i].name, std::pair(-1, -1)).first->second.second = static_cast<int>(i);
  const auto in_part = [](const StepProfile& p, size_t part, int step) { return step < 0 ? 0 : p.parts[part].steps_ms[static_cast<size_t>(step)]; };
  const auto whole = [](const StepProfile& p, int step) { return step < 0 ? 0 : p.steps[static_cast<size_t>(step)].ms; };
  std::vector<StepChange> changes;
  for (const auto& [name, at] : steps) {
    std::vector<double> differences;
    for (size_t part = 0; part < parts; ++part) differences.push_back(in_part(b, part, at.second) - in_part(a, part, at.first));
    if (!SurelyNotZero(differences)) continue;
    const StepChange change{name, whole(a, at.first), whole(b, at.second)};
    if (std::fabs(change.b_ms - change.a_ms) >= kLeastShare * a.total_ms) changes.push_back(change);
  }
  const auto size = [](const StepChange& c) { return std::fabs(c.b_ms - c.a_ms); };
  std::sort(changes.begin(), changes.end(), [&](const StepChange& x, const StepChange& y) { return size(x) != size(y) ? size(x) > size(y) : x.name < y.name; });
  return changes;
}

const char* VerdictName(Verdict verdict) {
  switch (verdict) {
    case Verdict::kFaster: return "faster";
    case Verdict::kSlower: return "slower";
    case Verdict::kSame: return "same";
  }
  return "";
}

Comparison CompareRatios(std::span<const double> ratios, double least_effect) {
  EVOQ_CHECK(!ratios.empty());
  std::mt19937_64 random(1);
  std::vector<double> drawn(ratios.begin(), ratios.end()), medians(kResamples);
  const double speedup = Median(drawn);
  for (double& median : medians) {
    for (double& d : drawn) d = ratios[Choose(random, ratios.size())];
    median = Median(drawn);
  }
  return Judge(speedup, medians, least_effect);
}

Comparison CompareSamples(std::span<const double> a_ms, std::span<const double> b_ms, double least_effect) {
  EVOQ_CHECK(!a_ms.empty() && !b_ms.empty());
  std::mt19937_64 random(1);
  std::vector<double> drawn(a_ms.begin(), a_ms.end()), ratios(kResamples);
  const double a = Median(drawn);
  drawn.assign(b_ms.begin(), b_ms.end());
  const double speedup = a / Median(drawn);
  for (double& ratio : ratios) {
    const double drawn_a = BlockMedian(a_ms, random, drawn);
    ratio = drawn_a / BlockMedian(b_ms, random, drawn);
  }
  return Judge(speedup, ratios, least_effect);
}

Result<CompareRuns> CompareExecutors(const Executor& a, const Executor& b, const CompareOptions& compare) {
  CompareRuns runs;
  std::vector<double> ratios;
  const int rounds = std::max(compare.rounds, 3);
  // One set of threads for both: those of the one that has just run spin for a while, on the cores that the other's would need.
  const auto pool = a.threads() == b.threads() ? std::make_shared<ThreadPool>(a.threads()) : nullptr;
  for (int round = 0; round < rounds; ++round) {
    const bool swapped = round % 2 == 1;
    EVOQ_ASSIGN(auto first, (swapped ? b : a).Another(pool));
    EVOQ_ASSIGN(auto second, (swapped ? a : b).Another(pool));
    RunBuffers buffers[] = {MakeBuffers(*first), MakeBuffers(*second)};
    Executor* const executors[] = {first.get(), second.get()};
    MeasureOptions measure;
    measure.warmup_ms = round == 0 ? compare.warmup_ms : compare.warmup_ms / 10;
    measure.duration_s = compare.duration_s / rounds;
    measure.min_runs = 5;
    EVOQ_ASSIGN(const std::vector<RunTimes> times, MeasureInterleaved(executors, buffers, measure));
    const RunTimes& time_a = times[swapped ? 1 : 0];
    const RunTimes& time_b = times[swapped ? 0 : 1];
    ratios.push_back(time_a.Percentile(kCalmPercent) / time_b.Percentile(kCalmPercent));
    runs.a.sorted_ms.insert(runs.a.sorted_ms.end(), time_a.sorted_ms.begin(), time_a.sorted_ms.end());
    runs.b.sorted_ms.insert(runs.b.sorted_ms.end(), time_b.sorted_ms.begin(), time_b.sorted_ms.end());
    if (compare.progress) compare.progress(static_cast<double>(round + 1) / rounds);
  }
  std::sort(runs.a.sorted_ms.begin(), runs.a.sorted_ms.end());
  std::sort(runs.b.sorted_ms.begin(), runs.b.sorted_ms.end());
  runs.result = CompareRatios(ratios, compare.least_effect);
  return runs;
}

}  // namespace evoq
