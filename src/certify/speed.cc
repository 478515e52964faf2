#include "certify/speed.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/median.h"

namespace evoq {
namespace {

constexpr int kLeastRounds = 7;
constexpr double kMostWarmMs = 50;

double LowerQuartile(std::vector<double>& values) {
  std::sort(values.begin(), values.end());
  return Percentile(values, 25);
}

std::string StepText(const Program& program, const Step& step) {
  const Node& node = program.graph->node(step.node);
  std::string text = step.decision.kernel;
  for (const auto* list : {&node.inputs, &node.outputs}) {
    for (ValueId id : *list)
      text += id.valid() ? " " + program.graph->value(id).type.ToString() : " _";
  }
  return text;
}

}  // namespace

Result<std::shared_ptr<Runnable>> RunnerOf(Engine& engine, const Samples& samples, size_t timed) {
  if (timed < samples.timed.size()) {
    const std::vector<Tensor>& inputs = samples.timed[timed].inputs;
    EVOQ_ASSIGN(const std::shared_ptr<Runnable> runner, engine.RunnableFor(inputs));
    runner->UseSample(inputs, /*repeats_in_place=*/true);
    return runner;
  }
  if (engine.in_regions().empty()) return engine.Default();
  if (samples.size() == 0)
    return Fail(ErrorCode::kUsage, "what runs depends on the data: give samples with --data ({})",
                engine.in_regions());
  return engine.RunnableFor(samples.inputs[0]);
}

bool SameSteps(const Program& a, const Program& b) {
  if (a.steps.size() != b.steps.size()) return false;
  for (size_t i = 0; i < a.steps.size(); ++i) {
    if (StepText(a, a.steps[i]) != StepText(b, b.steps[i])) return false;
  }
  return true;
}

Result<SpeedClaim> MeasureSpeed(const Runnable& reference, const Runnable& model,
                                const SpeedOptions& options) {
  CompareOptions compare;
  compare.duration_s = options.duration_s;
  compare.rounds = options.rounds;
  compare.progress = options.progress;
  compare.watch = options.watch;
  if (options.wait) compare.wait_s = options.duration_s / 2;
  const bool same = SameSteps(reference.program(), model.program());
  EVOQ_ASSIGN(CompareRuns runs, CompareExecutors(reference, model, compare));
  if (!same) return ClaimOf(runs.result);
  Comparison& equal = runs.result;
  equal.speedup = equal.low = equal.high = equal.rested = 1;
  equal.a_ms = equal.b_ms = std::sqrt(equal.a_ms * equal.b_ms);
  equal.verdict = Verdict::kSame;
  return SpeedClaim{equal, 1, ""};
}

Result<std::vector<double>> CalmRuns(std::span<Runnable* const> all, const ShareOfTime& time) {
  // On one set of threads, as in CompareExecutors.
  std::vector<std::unique_ptr<Runnable>> sharing;
  std::vector<Runnable*> executors(all.begin(), all.end());
  const auto pool = std::make_shared<ThreadPool>(all[0]->threads());
  for (Runnable*& executor : executors) {
    if (pool->threads() == 1 || executor->threads() != pool->threads()) continue;
    EVOQ_ASSIGN(sharing.emplace_back(), executor->Fresh(pool));
    executor = sharing.back().get();
  }
  std::vector<RunBuffers> buffers;
  for (Runnable* executor : executors) buffers.push_back(MakeBuffers(*executor));
  MeasureOptions options;
  options.duration_s = time.seconds;
  options.limit_s = time.limit_s;
  options.warmup_ms = std::min(kMostWarmMs, 200 * time.seconds);
  options.min_runs = kLeastRounds;
  options.watch = time.watch;
  // The others, in whose turn a model waits, leave little of it in the caches: who uses it runs it
  // again and again. So each measured run follows one that fills them.
  std::vector<std::function<Status()>> calls;
  const size_t runs = executors.size() > 1 ? 2 : 1;
  for (size_t i = 0; i < executors.size(); ++i)
    calls.insert(calls.end(), runs, [executor = executors[i], buffer = &buffers[i]] {
      return executor->Run(buffer->inputs, buffer->outputs);
    });
  EVOQ_ASSIGN(const std::vector<RunTimes> times, MeasureCallsInterleaved(calls, options));
  std::vector<double> calm;
  for (size_t i = runs - 1; i < times.size(); i += runs)
    calm.push_back(times[i].CalmMs(pool->threads() == 1));
  return calm;
}

Result<std::vector<std::vector<double>>> CalmSteps(std::span<Runnable* const> executors,
                                                   const ShareOfTime& time) {
  std::vector<RunBuffers> buffers;
  std::vector<std::vector<std::vector<double>>> samples;  // by executor, step, round
  std::vector<std::vector<double>> whole(executors.size());
  for (Runnable* executor : executors) {
    buffers.push_back(MakeBuffers(*executor));
    samples.emplace_back(executor->program().steps.size());
  }
  Watch& watch = *time.watch;
  const double start = watch.WallMs();
  const auto elapsed_s = [&] { return (watch.WallMs() - start) / 1e3; };
  // Round 0 fills the caches, and counts only where there is no time for another.
  for (int round = 0; round < kLeastRounds + 1 || elapsed_s() < time.seconds; ++round) {
    if (round > 0 && elapsed_s() >= time.limit_s) break;
    if (round == 1) {
      for (auto& steps : samples) std::fill(steps.begin(), steps.end(), std::vector<double>());
      std::fill(whole.begin(), whole.end(), std::vector<double>());
    }
    for (size_t e = 0; e < executors.size(); ++e) {
      std::vector<int64_t> ns(samples[e].size());
      EVOQ_TRY(executors[e]->Run(buffers[e].inputs,
                                 buffers[e].outputs));  // fills the caches as in earnest
      const double before = watch.WallMs();
      EVOQ_TRY(executors[e]->Run(buffers[e].inputs, buffers[e].outputs));
      whole[e].push_back(watch.WallMs() - before);
      EVOQ_TRY(executors[e]->RunTimed(buffers[e].inputs, buffers[e].outputs, ns));
      for (size_t s = 0; s < ns.size(); ++s)
        samples[e][s].push_back(static_cast<double>(ns[s]) / 1e6);
    }
  }
  std::vector<std::vector<double>> calm(executors.size());
  for (size_t e = 0; e < executors.size(); ++e) {
    for (auto& step : samples[e]) calm[e].push_back(LowerQuartile(step));
    const double sum = std::accumulate(calm[e].begin(), calm[e].end(), 0.0);
    const double scale = sum > 0 ? LowerQuartile(whole[e]) / sum : 1;
    for (double& ms : calm[e]) ms *= scale;
  }
  return calm;
}

}  // namespace evoq
