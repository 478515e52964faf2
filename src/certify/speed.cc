#include "certify/speed.h"

#include <algorithm>
#include <chrono>
#include <numeric>

#include "base/median.h"

namespace evoq {
namespace {

constexpr int kLeastRounds = 7;
constexpr double kMostWarmMs = 50;
constexpr double kRestedPercent = 5;  // runs that nothing disturbed

using Clock = std::chrono::steady_clock;
double SecondsSince(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

std::string StepText(const Program& program, const Step& step) {
  const Node& node = program.graph->node(step.node);
  std::string text = step.decision.kernel;
  for (const auto* list : {&node.inputs, &node.outputs}) {
    for (ValueId id : *list) text += id.valid() ? " " + program.graph->value(id).type.ToString() : " _";
  }
  return text;
}

}  // namespace

bool SameSteps(const Program& a, const Program& b) {
  if (a.steps.size() != b.steps.size()) return false;
  for (size_t i = 0; i < a.steps.size(); ++i) {
    if (StepText(a, a.steps[i]) != StepText(b, b.steps[i])) return false;
  }
  return true;
}

Result<SpeedClaim> MeasureSpeed(const Executor& reference, const Executor& model, const SpeedOptions& options) {
  CompareOptions compare;
  compare.duration_s = options.duration_s;
  compare.rounds = options.rounds;
  compare.progress = options.progress;
  EVOQ_ASSIGN(const CompareRuns runs, CompareExecutors(reference, model, compare));
  SpeedClaim claim{runs.a.median(), runs.b.median(), runs.result, runs.a.Percentile(kRestedPercent) / runs.b.Percentile(kRestedPercent), 1};
  if (SameSteps(reference.program(), model.program())) {
    claim.ratio = {1, 1, 1, Verdict::kSame};
    claim.rested = 1;
  } else {
    claim.guaranteed = GuaranteedRatio(claim.ratio, claim.rested);
  }
  return claim;
}

Result<std::vector<double>> MedianRuns(std::span<Executor* const> all, double seconds) {
  // On one set of threads, as in CompareExecutors.
  std::vector<std::unique_ptr<Executor>> sharing;
  std::vector<Executor*> executors(all.begin(), all.end());
  const auto pool = std::make_shared<ThreadPool>(all[0]->threads());
  for (Executor*& executor : executors) {
    if (pool->threads() == 1 || executor->threads() != pool->threads()) continue;
    EVOQ_ASSIGN(sharing.emplace_back(), executor->Another(pool));
    executor = sharing.back().get();
  }
  std::vector<RunBuffers> buffers;
  for (Executor* executor : executors) buffers.push_back(MakeBuffers(*executor));
  MeasureOptions options;
  options.duration_s = seconds;
  options.warmup_ms = std::min(kMostWarmMs, 200 * seconds);
  options.min_runs = kLeastRounds;
  EVOQ_ASSIGN(const std::vector<RunTimes> times, MeasureInterleaved(executors, buffers, options));
  std::vector<double> medians;
  for (const RunTimes& t : times) medians.push_back(t.median());
  return medians;
}

Result<std::vector<std::vector<double>>> MedianSteps(std::span<Executor* const> executors, double seconds) {
  std::vector<RunBuffers> buffers;
  std::vector<std::vector<std::vector<double>>> samples;  // by executor, step, round
  std::vector<std::vector<double>> whole(executors.size());
  for (Executor* executor : executors) {
    buffers.push_back(MakeBuffers(*executor));
    samples.emplace_back(executor->program().steps.size());
  }
  const auto start = Clock::now();
  for (int round = 0; round < kLeastRounds + 1 || SecondsSince(start) < seconds; ++round) {
    for (size_t e = 0; e < executors.size(); ++e) {
      std::vector<int64_t> ns(samples[e].size());
      EVOQ_TRY(executors[e]->Run(buffers[e].inputs, buffers[e].outputs));  // fills the caches as in earnest
      const auto before = Clock::now();
      EVOQ_TRY(executors[e]->Run(buffers[e].inputs, buffers[e].outputs));
      const double ms = 1e3 * SecondsSince(before);
      EVOQ_TRY(executors[e]->RunTimed(buffers[e].inputs, buffers[e].outputs, ns));
      if (round == 0) continue;
      whole[e].push_back(ms);
      for (size_t s = 0; s < ns.size(); ++s) samples[e][s].push_back(static_cast<double>(ns[s]) / 1e6);
    }
  }
  std::vector<std::vector<double>> medians(executors.size());
  for (size_t e = 0; e < executors.size(); ++e) {
    for (auto& step : samples[e]) medians[e].push_back(Median(step));
    const double sum = std::accumulate(medians[e].begin(), medians[e].end(), 0.0);
    const double scale = sum > 0 ? Median(whole[e]) / sum : 1;
    for (double& ms : medians[e]) ms *= scale;
  }
  return medians;
}

}  // namespace evoq
