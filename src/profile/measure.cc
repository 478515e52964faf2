#include "profile/measure.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>

namespace evoq {
namespace {

using Clock = std::chrono::steady_clock;
double Ms(Clock::duration d) { return std::chrono::duration<double, std::milli>(d).count(); }

double Median(std::vector<double>& v) {
  if (v.empty()) return 0;
  std::nth_element(v.begin(), v.begin() + static_cast<ptrdiff_t>(v.size() / 2), v.end());
  return v[v.size() / 2];
}

// Runs `once` until the options are satisfied, after the warm-up.
Status Repeat(const MeasureOptions& options, const std::function<Status(bool measured)>& once) {
  for (const auto start = Clock::now(); Ms(Clock::now() - start) < options.warmup_ms;) EVOQ_TRY(once(false));
  const auto start = Clock::now();
  for (int64_t run = 0; run < options.max_runs; ++run) {
    const double elapsed = Ms(Clock::now() - start) / 1e3;
    if (run >= options.min_runs && elapsed >= options.duration_s) break;
    EVOQ_TRY(once(true));
    if (options.progress) options.progress(std::min(1.0, elapsed / std::max(options.duration_s, 1e-9)));
  }
  return {};
}

StepTime Describe(const Executor& executor, size_t s) {
  const Program& program = executor.program();
  const Step& step = program.steps[s];
  const Node& node = program.graph->node(step.node);
  const KernelDef* kernel = FindKernel(step.decision.kernel);
  StepTime t;
  t.name = node.name;
  t.op = node.op;
  t.kernel = step.decision.kernel;
  t.variant = executor.variants()[s];
  t.precision = step.decision.precision;
  t.peak = kernel ? kernel->peak : Peak::kMemory;
  if (!node.outputs.empty() && node.outputs[0].valid())
    t.shape = program.graph->value(node.outputs[0]).type.shape.ToString();
  t.macs = step.macs * executor.repeats();
  t.bytes = step.bytes * executor.repeats();
  return t;
}

}  // namespace

double RunTimes::mean() const {
  double sum = 0;
  for (double ms : sorted_ms) sum += ms;
  return sum / static_cast<double>(sorted_ms.size());
}

double RunTimes::variation() const {
  const double center = mean();
  double squares = 0;
  for (double ms : sorted_ms) squares += (ms - center) * (ms - center);
  return center > 0 ? std::sqrt(squares / static_cast<double>(sorted_ms.size())) / center : 0;
}

double RunTimes::Percentile(double percent) const {
  const double rank = percent / 100 * static_cast<double>(sorted_ms.size() - 1);
  const size_t below = static_cast<size_t>(rank);
  const size_t above = std::min(below + 1, sorted_ms.size() - 1);
  return sorted_ms[below] + (rank - static_cast<double>(below)) * (sorted_ms[above] - sorted_ms[below]);
}

Result<std::vector<RunTimes>> MeasureInterleaved(std::span<Executor* const> executors, std::span<RunBuffers> buffers,
                                                 const MeasureOptions& options) {
  std::vector<RunTimes> times(executors.size());
  Clock::time_point first;
  EVOQ_TRY(Repeat(options, [&](bool measured) -> Status {
    for (size_t i = 0; i < executors.size(); ++i) {
      const auto start = Clock::now();
      EVOQ_TRY(executors[i]->Run(buffers[i].inputs, buffers[i].outputs));
      if (!measured) continue;
      const double ms = Ms(Clock::now() - start);
      if (times[0].spans.empty()) first = start;
      times[i].sorted_ms.push_back(ms);
      times[i].spans.push_back({Ms(start - first), ms});
    }
    return {};
  }));
  for (RunTimes& t : times) std::sort(t.sorted_ms.begin(), t.sorted_ms.end());
  return times;
}

Result<RunTimes> MeasureCalls(const std::function<Status()>& call, const MeasureOptions& options) {
  RunTimes times;
  Clock::time_point first;
  EVOQ_TRY(Repeat(options, [&](bool measured) -> Status {
    const auto start = Clock::now();
    EVOQ_TRY(call());
    if (!measured) return {};
    const double ms = Ms(Clock::now() - start);
    if (times.spans.empty()) first = start;
    times.sorted_ms.push_back(ms);
    times.spans.push_back({Ms(start - first), ms});
    return {};
  }));
  std::sort(times.sorted_ms.begin(), times.sorted_ms.end());
  return times;
}

Result<RunTimes> MeasureRuns(Executor& executor, RunBuffers& buffers, const MeasureOptions& options) {
  Executor* const one[] = {&executor};
  EVOQ_ASSIGN(auto times, MeasureInterleaved(one, std::span(&buffers, 1), options));
  return std::move(times[0]);
}

Result<StepProfile> MeasureSteps(Executor& executor, RunBuffers& buffers, const Limits& limits,
                                 const MeasureOptions& options) {
  const size_t count = executor.program().steps.size();
  std::vector<std::vector<double>> samples(count);
  std::vector<double> whole;
  std::vector<int64_t> ns(count);
  // Whole runs and timed runs alternate, so that both see the same machine.
  EVOQ_TRY(Repeat(options, [&](bool measured) -> Status {
    const auto before = Clock::now();
    EVOQ_TRY(executor.Run(buffers.inputs, buffers.outputs));
    const double whole_ms = Ms(Clock::now() - before);
    EVOQ_TRY(executor.RunTimed(buffers.inputs, buffers.outputs, ns));
    if (!measured) return {};
    whole.push_back(whole_ms);
    for (size_t s = 0; s < count; ++s) samples[s].push_back(static_cast<double>(ns[s]) / 1e6);
    return {};
  }));
  StepProfile profile;
  profile.runs = static_cast<int64_t>(whole.size());
  profile.total_ms = Median(whole);
  for (size_t s = 0; s < count; ++s) {
    StepTime t = Describe(executor, s);
    for (double ms : samples[s]) t.mean_ms += ms / static_cast<double>(samples[s].size());
    t.ms = Median(samples[s]);
    if (t.ms > 0) {
      t.gops = 2.0 * static_cast<double>(t.macs) / (t.ms * 1e6);
      t.roofline_share = RooflineNs(limits, t.peak, t.macs, t.bytes) / (t.ms * 1e6);
    }
    profile.steps_ms += t.ms;
    profile.steps.push_back(std::move(t));
  }
  for (StepTime& t : profile.steps) t.share = profile.steps_ms > 0 ? t.ms / profile.steps_ms : 0;
  return profile;
}

int64_t PeakRssBytes() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<int64_t>(usage.ru_maxrss) * 1024;
}

}  // namespace evoq
