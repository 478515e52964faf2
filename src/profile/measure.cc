#include "profile/measure.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/median.h"

namespace evoq {
namespace {

using Clock = std::chrono::steady_clock;
double Ms(Clock::duration d) { return std::chrono::duration<double, std::milli>(d).count(); }

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

namespace {

// Runs of one executor in turn without and with step timing.
class StepSamples {
 public:
  StepSamples(Executor& executor, RunBuffers& buffers, std::function<void()> host)
      : executor_(executor), buffers_(buffers), host_(std::move(host)), ns_(executor.program().steps.size()), steps_(ns_.size()) {}

  // A run without and a run with step timing, so that both see the same machine.
  Status Pair(bool counted) {
    const auto plain = Clock::now();
    if (host_) host_();
    EVOQ_TRY(executor_.Run(buffers_.inputs, buffers_.outputs));
    const auto timed = Clock::now();
    if (host_) host_();
    EVOQ_TRY(executor_.RunTimed(buffers_.inputs, buffers_.outputs, ns_));
    const auto end = Clock::now();
    if (!counted) return {};
    plain_.push_back(Ms(timed - plain));
    timed_.push_back(Ms(end - timed));
    for (size_t s = 0; s < ns_.size(); ++s) steps_[s].push_back(static_cast<double>(ns_[s]) / 1e6);
    if (recorded_.size() < kRecorded) Record(plain, timed, end);
    return {};
  }
  double counted_ms() const {
    double sum = 0;
    for (size_t i = 0; i < plain_.size(); ++i) sum += plain_[i] + timed_[i];
    return sum;
  }
  int64_t runs() const { return static_cast<int64_t>(timed_.size()); }

  StepProfile Profile(const Limits& limits) {
    StepProfile profile;
    profile.recorded = std::move(recorded_);
    profile.runs = runs();
    profile.total_ms = MeanOf(plain_, MiddleHalf(plain_));
    const std::vector<size_t> middle = MiddleHalf(timed_);
    for (size_t s = 0; s < steps_.size(); ++s) {
      StepTime t = Describe(executor_, s);
      t.ms = MeanOf(steps_[s], middle);
      for (double ms : steps_[s]) t.mean_ms += ms / static_cast<double>(steps_[s].size());
      t.median_ms = Median(steps_[s]);
      if (t.ms > 0) {
        t.gops = 2.0 * static_cast<double>(t.macs) / (t.ms * 1e6);
        t.roofline_share = RooflineNs(limits, t.peak, t.macs, t.bytes) / (t.ms * 1e6);
      }
      profile.steps_ms += t.ms;
      profile.steps.push_back(std::move(t));
    }
    profile.host_ms = MeanOf(timed_, middle) - profile.steps_ms;
    for (StepTime& t : profile.steps) t.share = profile.steps_ms > 0 ? t.ms / profile.steps_ms : 0;
    return profile;
  }

 private:
  static constexpr size_t kRecorded = 40;

  void Record(Clock::time_point plain, Clock::time_point timed, Clock::time_point end) {
    if (recorded_.empty()) first_ = plain;
    recorded_.push_back({Ms(plain - first_), Ms(timed - plain), {}});
    RecordedRun run{Ms(timed - first_), Ms(end - timed), {}};
    for (int64_t ns : ns_) run.steps_ms.push_back(static_cast<double>(ns) / 1e6);
    recorded_.push_back(std::move(run));
  }
  // The runs between the quartiles of what runs took.
  static std::vector<size_t> MiddleHalf(const std::vector<double>& ms) {
    std::vector<size_t> order(ms.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return ms[a] != ms[b] ? ms[a] < ms[b] : a < b; });
    const size_t cut = order.size() / 4;
    return {order.begin() + static_cast<ptrdiff_t>(cut), order.end() - static_cast<ptrdiff_t>(cut)};
  }
  static double MeanOf(const std::vector<double>& ms, const std::vector<size_t>& which) {
    double sum = 0;
    for (size_t i : which) sum += ms[i];
    return which.empty() ? 0 : sum / static_cast<double>(which.size());
  }

  Executor& executor_;
  RunBuffers& buffers_;
  std::function<void()> host_;
  std::vector<int64_t> ns_;
  std::vector<std::vector<double>> steps_;  // by step, by run
  std::vector<double> plain_, timed_;       // whole runs without and with step timing
  std::vector<RecordedRun> recorded_;
  Clock::time_point first_;
};

}  // namespace

Result<std::vector<StepProfile>> MeasureStepsInterleaved(std::span<Executor* const> executors, std::span<RunBuffers> buffers,
                                                         const Limits& limits, const MeasureOptions& options) {
  constexpr double kBlockMs = 20;  // of one executor, then it is the next one's turn
  std::vector<StepSamples> samples;
  for (size_t i = 0; i < executors.size(); ++i)
    samples.emplace_back(*executors[i], buffers[i], i + 1 == executors.size() ? options.host : nullptr);
  for (StepSamples& s : samples) {
    for (const auto start = Clock::now(); Ms(Clock::now() - start) < options.warmup_ms;) EVOQ_TRY(s.Pair(false));
  }
  const auto enough = [&](const StepSamples& s) {
    return s.runs() >= options.max_runs || (s.runs() >= options.min_runs && s.counted_ms() >= options.duration_s * 1e3);
  };
  while (!std::all_of(samples.begin(), samples.end(), enough)) {
    double done = 1;
    for (StepSamples& s : samples) {
      if (samples.size() > 1) EVOQ_TRY(s.Pair(false));
      const int64_t runs = s.runs();
      const auto start = Clock::now();
      while (s.runs() < runs + 3 || Ms(Clock::now() - start) < kBlockMs) EVOQ_TRY(s.Pair(true));
      done = std::min(done, s.counted_ms() / std::max(options.duration_s * 1e3, 1e-9));
    }
    if (options.progress) options.progress(done);
  }
  std::vector<StepProfile> profiles;
  for (StepSamples& s : samples) profiles.push_back(s.Profile(limits));
  return profiles;
}

Result<StepProfile> MeasureSteps(Executor& executor, RunBuffers& buffers, const Limits& limits, const MeasureOptions& options) {
  Executor* const one[] = {&executor};
  EVOQ_ASSIGN(auto profiles, MeasureStepsInterleaved(one, std::span(&buffers, 1), limits, options));
  return std::move(profiles[0]);
}

int64_t PeakRssBytes() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<int64_t>(usage.ru_maxrss) * 1024;
}

}  // namespace evoq
