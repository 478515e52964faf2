#include "profile/compare.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "base/check.h"
#include "base/median.h"
#include "base/ms_text.h"
#include "profile/interval.h"

namespace evoq {
namespace {

constexpr int kResamples = 2000;
constexpr double kRestedPercent = 5;  // of all runs: those that nothing disturbed
constexpr int kLeastRounds = 3;

// An even choice of [0, count), the same on every machine (std::uniform_int_distribution is not).
size_t Choose(std::mt19937_64& random, size_t count) {
  return static_cast<size_t>((random() >> 32) * count >> 32);
}

// Whether the interval excludes that they are equally fast, and the difference is one that counts.
Verdict VerdictOf(const Comparison& c, double least_effect) {
  if (c.low > 1 && c.speedup > 1 + least_effect) return Verdict::kFaster;
  if (c.high < 1 && c.speedup < 1 / (1 + least_effect)) return Verdict::kSlower;
  return Verdict::kSame;
}

Comparison Judge(double speedup, std::vector<double>& resampled, double least_effect,
                 const Disturbance& disturbance = {}) {
  std::sort(resampled.begin(), resampled.end());
  const double widening = disturbance.Widening(speedup);
  Comparison c;
  c.speedup = speedup;
  c.low = std::min(speedup, resampled[static_cast<size_t>(0.025 * kResamples)]) / widening;
  c.high = std::max(speedup, resampled[static_cast<size_t>(0.975 * kResamples) - 1]) * widening;
  c.rested = speedup;
  c.disturbance = disturbance;
  c.verdict = VerdictOf(c, least_effect);
  return c;
}

// The median of blocks drawn from `runs`, about as many runs as there are.
double BlockMedian(std::span<const double> runs, std::mt19937_64& random,
                   std::vector<double>& drawn) {
  const size_t block = std::max<size_t>(1, runs.size() / 25);
  drawn.clear();
  while (drawn.size() < runs.size()) {
    const size_t begin = Choose(random, runs.size() - block + 1);
    drawn.insert(drawn.end(), runs.begin() + static_cast<ptrdiff_t>(begin),
                 runs.begin() + static_cast<ptrdiff_t>(begin + block));
  }
  return Median(drawn);
}

Contestant ContestantOf(const Runnable& executor) {
  return {executor.threads(),
          [&executor](const std::shared_ptr<ThreadPool>& pool) -> Result<std::function<Status()>> {
            EVOQ_ASSIGN(std::shared_ptr<Runnable> fresh, executor.Fresh(pool));
            const auto buffers = std::make_shared<RunBuffers>(MakeBuffers(*fresh));
            return std::function<Status()>(
                [fresh, buffers] { return fresh->Run(buffers->inputs, buffers->outputs); });
          }};
}

}  // namespace

std::vector<StepChange> ChangedSteps(const StepProfile& a, const StepProfile& b) {
  constexpr double kLeastShare = 0.005;
  const size_t parts = std::min(a.parts.size(), b.parts.size());
  std::map<std::string, std::pair<int, int>> steps;  // in a and in b, -1 where it has none
  for (size_t i = 0; i < a.steps.size(); ++i)
    steps.emplace(a.steps[i].name, std::pair(-1, -1)).first->second.first = static_cast<int>(i);
  for (size_t i = 0; i < b.steps.size(); ++i)
    steps.emplace(b.steps[i].name, std::pair(-1, -1)).first->second.second = static_cast<int>(i);
  const auto in_part = [](const StepProfile& p, size_t part, int step) {
    return step < 0 ? 0 : p.parts[part].steps_ms[static_cast<size_t>(step)];
  };
  const auto whole = [](const StepProfile& p, int step) {
    return step < 0 ? 0 : p.steps[static_cast<size_t>(step)].ms;
  };
  std::vector<StepChange> changes;
  for (const auto& [name, at] : steps) {
    std::vector<double> differences;
    for (size_t part = 0; part < parts; ++part)
      differences.push_back(in_part(b, part, at.second) - in_part(a, part, at.first));
    if (!SurelyNotZero(differences)) continue;
    const StepChange change{name, whole(a, at.first), whole(b, at.second)};
    if (std::fabs(change.b_ms - change.a_ms) >= kLeastShare * a.total_ms) changes.push_back(change);
  }
  const auto size = [](const StepChange& c) { return std::fabs(c.b_ms - c.a_ms); };
  std::sort(changes.begin(), changes.end(), [&](const StepChange& x, const StepChange& y) {
    return size(x) != size(y) ? size(x) > size(y) : x.name < y.name;
  });
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

std::string ToText(const Comparison& c) {
  return fmt::format("{} ms beside {} ms: {:.3f}x [{:.3f}, {:.3f}]", MsText(c.b_ms), MsText(c.a_ms),
                     c.speedup, c.low, c.high);
}

nlohmann::json ToJson(const Comparison& c) {
  return {{"a_ms", c.a_ms},         {"b_ms", c.b_ms},
          {"speedup", c.speedup},   {"speedup_low", c.low},
          {"speedup_high", c.high}, {"verdict", VerdictName(c.verdict)},
          {"rounds", c.rounds},     {"disturbance", ToJson(c.disturbance)}};
}

Comparison CompareRatios(std::span<const double> ratios, double least_effect,
                         const Disturbance& disturbance) {
  EVOQ_CHECK(!ratios.empty());
  std::mt19937_64 random(1);
  std::vector<double> drawn(ratios.begin(), ratios.end()), medians(kResamples);
  const double speedup = Median(drawn);
  for (double& median : medians) {
    for (double& d : drawn) d = ratios[Choose(random, ratios.size())];
    median = Median(drawn);
  }
  Comparison c = Judge(speedup, medians, least_effect, disturbance);
  c.rounds = static_cast<int>(ratios.size());
  return c;
}

Comparison CompareRounds(std::span<const RoundTimes> rounds, double least_effect,
                         const Disturbance& disturbance) {
  std::vector<double> ratios, means;
  for (const RoundTimes& r : rounds) {
    ratios.push_back(r.a_ms / r.b_ms);
    means.push_back(std::sqrt(r.a_ms * r.b_ms));
  }
  Comparison c = CompareRatios(ratios, least_effect, disturbance);
  c.b_ms = Median(means) / std::sqrt(c.speedup);
  c.a_ms = c.b_ms * c.speedup;
  return c;
}

Comparison CompareProfiles(const StepProfile& a, const StepProfile& b, double least_effect) {
  std::vector<double> ratios;
  for (size_t turn = 0; turn < std::min(a.turns_ms.size(), b.turns_ms.size()); ++turn)
    ratios.push_back(a.turns_ms[turn] / b.turns_ms[turn]);
  Comparison c;
  if (ratios.empty() || !(a.total_ms > 0) || !(b.total_ms > 0)) return c;
  c = CompareRatios(ratios, least_effect, b.disturbance);
  // The turns' interval, around the ratio of the times that are shown.
  const double moved = a.total_ms / b.total_ms / c.speedup;
  c.speedup *= moved, c.low *= moved, c.high *= moved, c.rested *= moved;
  c.a_ms = a.total_ms;
  c.b_ms = b.total_ms;
  c.verdict = VerdictOf(c, least_effect);
  return c;
}

Comparison CompareSamples(std::span<const double> a_ms, std::span<const double> b_ms,
                          double least_effect) {
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
  Comparison c = Judge(speedup, ratios, least_effect);
  c.a_ms = a;
  c.b_ms = a / speedup;
  return c;
}

Result<CompareRuns> CompareContestants(const Contestant& a, const Contestant& b,
                                       const CompareOptions& compare) {
  constexpr int64_t kLeastRuns = 5;  // of a round, while there is time
  CompareRuns runs;
  std::vector<RoundTimes> rounds;
  const int wanted = std::max(compare.rounds, kLeastRounds);
  const bool one_thread = std::max(a.threads, b.threads) == 1;
  const auto pool = a.threads == b.threads ? std::make_shared<ThreadPool>(a.threads) : nullptr;
  Watch& watch = *compare.watch;
  const double start = watch.WallMs();
  const auto left_s = [&] { return compare.duration_s - (watch.WallMs() - start) / 1e3; };
  if (compare.wait_s > 0) WaitForCalm(&watch, std::max(a.threads, b.threads), compare.wait_s);
  DisturbanceMeter meter(&watch);
  for (int round = 0; round < wanted && (round < kLeastRounds || left_s() > 0); ++round) {
    const bool swapped = round % 2 == 1;
    EVOQ_ASSIGN(const auto first, (swapped ? b : a).fresh(pool));
    EVOQ_ASSIGN(const auto second, (swapped ? a : b).fresh(pool));
    const std::function<Status()> calls[] = {first, second};
    MeasureOptions measure;
    measure.watch = &watch;
    measure.meter = &meter;
    const double rest_s = std::max(0.0, left_s()), share_s = rest_s / (wanted - round);
    measure.warmup_ms =
        std::min(round == 0 ? compare.warmup_ms : compare.warmup_ms / 10, 500 * share_s);
    measure.duration_s = std::max(0.0, share_s - measure.warmup_ms / 1e3);
    measure.min_runs = kLeastRuns;
    measure.limit_s = std::min(2 * share_s, rest_s);
    EVOQ_ASSIGN(const std::vector<RunTimes> times, MeasureCallsInterleaved(calls, measure));
    const RunTimes& time_a = times[swapped ? 1 : 0];
    const RunTimes& time_b = times[swapped ? 0 : 1];
    rounds.push_back({time_a.CalmMs(one_thread), time_b.CalmMs(one_thread)});
    meter.Round(rounds.back().a_ms / rounds.back().b_ms);
    for (auto [all, some] : {std::pair(&runs.a, &time_a), std::pair(&runs.b, &time_b)}) {
      all->sorted_ms.insert(all->sorted_ms.end(), some->sorted_ms.begin(), some->sorted_ms.end());
      all->spans.insert(all->spans.end(), some->spans.begin(), some->spans.end());
    }
    if (compare.progress) EVOQ_TRY(compare.progress(static_cast<double>(round + 1) / wanted));
  }
  for (RunTimes* all : {&runs.a, &runs.b}) std::sort(all->sorted_ms.begin(), all->sorted_ms.end());
  runs.result = CompareRounds(rounds, compare.least_effect, meter.Read());
  runs.result.rested =
      runs.a.CalmMs(one_thread, kRestedPercent) / runs.b.CalmMs(one_thread, kRestedPercent);
  return runs;
}

Result<CompareRuns> CompareExecutors(const Runnable& a, const Runnable& b,
                                     const CompareOptions& compare) {
  return CompareContestants(ContestantOf(a), ContestantOf(b), compare);
}

}  // namespace evoq
