#include "profile/measure.h"

#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <string>

#include "base/isa.h"
#include "base/median.h"

namespace evoq {
namespace {

// Runs `once` until the options are satisfied, after the warm-up.
Status Repeat(const MeasureOptions& options, const std::function<Status(bool measured)>& once) {
  Watch& watch = *options.watch;
  const double begin = watch.WallMs(), limit_ms = 1e3 * options.limit_s;
  for (double now = begin; now - begin < std::min(options.warmup_ms, limit_ms);
       now = watch.WallMs())
    EVOQ_TRY(once(false));
  const double start = watch.WallMs();
  for (int64_t run = 0; run < options.max_runs; ++run) {
    const double now = watch.WallMs(), elapsed = (now - start) / 1e3;
    if (run >= options.min_runs && elapsed >= options.duration_s) break;
    if (run > 0 && now - begin >= limit_ms) break;
    EVOQ_TRY(once(true));
    if (options.progress)
      EVOQ_TRY(options.progress(std::min(1.0, elapsed / std::max(options.duration_s, 1e-9))));
  }
  return {};
}

// Calls, and measures it.
Result<RunSpan> TimeCall(const std::function<Status()>& call, const MeasureOptions& options) {
  // Less is what reading the clocks takes.
  constexpr double kLeastMs = 0.01, kLeastShare = 0.01;
  Watch& watch = *options.watch;
  const int64_t switches = watch.Switches();
  const double thread = watch.ThreadMs(), start = watch.WallMs();
  EVOQ_TRY(call());
  RunSpan span{start, watch.WallMs() - start, 0, false};
  span.thread_ms = watch.ThreadMs() - thread;
  const bool waited = span.ms - span.thread_ms > std::max(kLeastMs, kLeastShare * span.ms);
  span.interrupted = waited || watch.Switches() != switches;
  if (options.meter != nullptr) options.meter->Run(span.ms, span.thread_ms);
  return span;
}

StepTime Describe(const Runnable& executor, size_t s) {
  const Program& program = executor.program();
  const Step& step = program.steps[s];
  const Node& node = program.graph->node(step.node);
  StepTime t;
  t.name = node.name;
  t.op = node.op;
  t.kernel = step.decision.kernel;
  t.variant = executor.plans()[s].ToString();
  t.precision = step.decision.precision;
  t.peak = step.kernel ? step.kernel->peak : Peak::kMemory;
  if (!node.outputs.empty() && node.outputs[0].valid())
    t.shape = program.graph->value(node.outputs[0]).type.shape.ToString();
  t.macs = step.macs * executor.repeats();
  t.bytes = step.bytes * executor.repeats();
  return t;
}

// Of what the step reads, the bytes that outlive a run: constants, and inputs such as caches.
int64_t LastingBytes(const Program& program, const Step& step) {
  int64_t bytes = 0;
  for (const ValueId id : program.graph->node(step.node).inputs) {
    if (!id.valid() || program.graph->value(id).producer.valid()) continue;
    bytes += program.graph->value(id).type.bytes().value_or(0);
  }
  return std::min(bytes, step.bytes);
}

}  // namespace

std::vector<int64_t> MemoryBytes(const Program& program, int64_t cache_bytes) {
  std::vector<int64_t> bytes;
  for (const Step& step : program.steps) bytes.push_back(LastingBytes(program, step));
  if (std::accumulate(bytes.begin(), bytes.end(), int64_t{0}) <= cache_bytes)
    std::ranges::fill(bytes, 0);
  return bytes;
}

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

double RunTimes::Percentile(double percent) const { return evoq::Percentile(sorted_ms, percent); }

double RunTimes::CalmMs(bool one_thread, double percent) const {
  constexpr size_t kLeastRuns = 3;
  std::vector<double> ms;
  for (const RunSpan& span : spans) {
    if (!span.interrupted) ms.push_back(span.ms);
  }
  if (ms.size() < kLeastRuns) {
    ms.clear();
    for (const RunSpan& span : spans)
      ms.push_back(one_thread && span.thread_ms > 0 ? std::min(span.ms, span.thread_ms) : span.ms);
  }
  std::sort(ms.begin(), ms.end());
  return evoq::Percentile(ms, percent);
}

Result<std::vector<RunTimes>> MeasureCallsInterleaved(
    std::span<const std::function<Status()>> calls, const MeasureOptions& options) {
  std::vector<RunTimes> times(calls.size());
  double first = 0;
  EVOQ_TRY(Repeat(options, [&](bool measured) -> Status {
    for (size_t i = 0; i < calls.size(); ++i) {
      if (!measured) {
        EVOQ_TRY(calls[i]());
        continue;
      }
      EVOQ_ASSIGN(RunSpan span, TimeCall(calls[i], options));
      if (times[0].spans.empty()) first = span.start_ms;
      span.start_ms -= first;
      times[i].sorted_ms.push_back(span.ms);
      times[i].spans.push_back(span);
    }
    return {};
  }));
  for (RunTimes& t : times) std::sort(t.sorted_ms.begin(), t.sorted_ms.end());
  return times;
}

Result<std::vector<RunTimes>> MeasureInterleaved(std::span<Runnable* const> executors,
                                                 std::span<RunBuffers> buffers,
                                                 const MeasureOptions& options) {
  std::vector<std::function<Status()>> calls;
  for (size_t i = 0; i < executors.size(); ++i)
    calls.push_back([executor = executors[i], buffer = &buffers[i]] {
      return executor->Run(buffer->inputs, buffer->outputs);
    });
  return MeasureCallsInterleaved(calls, options);
}

Result<RunTimes> MeasureCalls(const std::function<Status()>& call, const MeasureOptions& options) {
  EVOQ_ASSIGN(auto times, MeasureCallsInterleaved(std::span(&call, 1), options));
  return std::move(times[0]);
}

Result<RunTimes> MeasureRuns(Runnable& executor, RunBuffers& buffers,
                             const MeasureOptions& options) {
  Runnable* const one[] = {&executor};
  EVOQ_ASSIGN(auto times, MeasureInterleaved(one, std::span(&buffers, 1), options));
  return std::move(times[0]);
}

namespace {

// The indices of `ms` in ascending order of it.
std::vector<size_t> Ascending(const std::vector<double>& ms) {
  std::vector<size_t> order(ms.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return ms[a] != ms[b] ? ms[a] < ms[b] : a < b; });
  return order;
}

// Runs of one program in turn without and with step timing, in blocks.
class StepSamples {
 public:
  StepSamples(std::function<void()> host, Watch* watch) : host_(std::move(host)), watch_(watch) {}

  // Who hears of each run.
  void Tell(DisturbanceMeter* meter) { meter_ = meter; }

  void Use(Runnable& executor, RunBuffers& buffers) {
    executor_ = &executor;
    buffers_ = &buffers;
    ns_.resize(executor.program().steps.size());
    all_steps_.resize(ns_.size());
  }
  Status WarmUp(double ms) {
    for (const double start = watch_->WallMs(); watch_->WallMs() - start < ms;)
      EVOQ_TRY(Pair(nullptr));
    return {};
  }
  // After a pair that fills the caches.
  Status MeasureBlock() {
    EVOQ_TRY(Pair(nullptr));
    Block block;
    block.steps.resize(ns_.size());
    const double start = watch_->WallMs();
    do {
      EVOQ_TRY(Pair(&block));
    } while (block.plain.size() < kLeastPairs || watch_->WallMs() - start < kBlockMs);
    blocks_.push_back(SumsOf(block));
    return {};
  }
  double counted_ms() const { return counted_ms_; }
  double last_block_ms() const { return blocks_.back().total_ms; }
  int64_t runs() const { return runs_; }
  bool has_parts() const { return blocks_.size() >= kParts * kLeastOfPart; }

  StepProfile Profile(const Limits& limits) {
    StepProfile profile;
    profile.recorded = std::move(recorded_);
    profile.runs = runs();
    const std::vector<int64_t> memory_bytes =
        MemoryBytes(executor_->program(), LargestCacheBytes());
    for (size_t s = 0; s < ns_.size(); ++s) {
      StepTime t = Describe(*executor_, s);
      t.memory_bytes = memory_bytes[s];
      for (double ms : all_steps_[s]) t.mean_ms += ms / static_cast<double>(all_steps_[s].size());
      t.median_ms = Median(all_steps_[s]);
      profile.steps.push_back(std::move(t));
    }
    SetTimes(profile, Calm(blocks_), limits);
    if (has_parts()) {
      for (size_t part = 0; part < kParts; ++part) {
        const auto at = [&](size_t p) {
          return static_cast<ptrdiff_t>(blocks_.size() * p / kParts);
        };
        profile.parts.push_back(
            Calm(std::span(blocks_).subspan(at(part), at(part + 1) - at(part))));
      }
    }
    for (const StepSums& block : blocks_) profile.turns_ms.push_back(block.total_ms);
    std::vector<double> times = profile.turns_ms;
    if (profile.total_ms > 0) profile.busy = std::max(0.0, Median(times) / profile.total_ms - 1);
    return profile;
  }

 private:
  static constexpr size_t kRecorded = 40;
  static constexpr size_t kLeastPairs = 2;
  static constexpr double kBlockMs = 10;
  static constexpr size_t kParts = 8, kLeastOfPart = 3;

  struct Block {
    std::vector<double> plain, timed;        // whole runs without and with step timing
    std::vector<std::vector<double>> steps;  // by step, by run
  };

  // A run without and a run with step timing, so that both see the same machine. `block`: null for
  // one that does not count.
  Status Pair(Block* block) {
    const double thread_ms = watch_->ThreadMs();
    const double plain = watch_->WallMs();
    if (host_) host_();
    EVOQ_TRY(executor_->Run(buffers_->inputs, buffers_->outputs));
    const double timed = watch_->WallMs();
    if (host_) host_();
    EVOQ_TRY(executor_->RunTimed(buffers_->inputs, buffers_->outputs, ns_));
    const double end = watch_->WallMs();
    if (block == nullptr) return {};
    block->plain.push_back(timed - plain);
    block->timed.push_back(end - timed);
    for (size_t s = 0; s < ns_.size(); ++s) {
      block->steps[s].push_back(static_cast<double>(ns_[s]) / 1e6);
      all_steps_[s].push_back(block->steps[s].back());
    }
    if (recorded_.size() < kRecorded) Record(plain, timed, end);
    if (meter_ != nullptr) meter_->Run(end - plain, watch_->ThreadMs() - thread_ms);
    counted_ms_ += end - plain;
    ++runs_;
    return {};
  }
  void Record(double plain, double timed, double end) {
    if (recorded_.empty()) first_ = plain;
    recorded_.push_back({plain - first_, timed - plain, {}});
    RecordedRun run{timed - first_, end - timed, {}};
    for (int64_t ns : ns_) run.steps_ms.push_back(static_cast<double>(ns) / 1e6);
    recorded_.push_back(std::move(run));
  }
  // The runs between the quartiles of what runs took.
  static std::vector<size_t> MiddleHalf(const std::vector<double>& ms) {
    const std::vector<size_t> order = Ascending(ms);
    const auto cut = static_cast<ptrdiff_t>(order.size() / 4);
    return {order.begin() + cut, order.end() - cut};
  }
  static double MeanOf(const std::vector<double>& ms, const std::vector<size_t>& which) {
    double sum = 0;
    for (size_t i : which) sum += ms[i];
    return which.empty() ? 0 : sum / static_cast<double>(which.size());
  }
  static StepSums SumsOf(const Block& block) {
    const std::vector<size_t> middle = MiddleHalf(block.timed);
    StepSums sums{MeanOf(block.plain, MiddleHalf(block.plain)), MeanOf(block.timed, middle), {}};
    for (const auto& step : block.steps) sums.steps_ms.push_back(MeanOf(step, middle));
    return sums;
  }
  // Which blocks are within 3% of the fastest tenth.
  static std::vector<size_t> CalmOf(const std::vector<double>& ms) {
    constexpr double kWithin = 1.03;
    std::vector<size_t> calm = Ascending(ms);
    const double fast = ms[calm[calm.size() / 10]];
    while (ms[calm.back()] > kWithin * fast) calm.pop_back();
    return calm;
  }
  // The mean over the calm blocks. A block may be calm for one kind of runs only: on a busy machine
  // few of some runs each are calm for both.
  static StepSums Calm(std::span<const StepSums> blocks) {
    std::vector<double> plain, timed;
    for (const StepSums& b : blocks) plain.push_back(b.total_ms), timed.push_back(b.timed_ms);
    const std::vector<size_t> calm = CalmOf(timed);
    StepSums mean{MeanOf(plain, CalmOf(plain)), MeanOf(timed, calm), {}};
    for (size_t s = 0; s < blocks[0].steps_ms.size(); ++s) {
      std::vector<double> ms;
      for (const StepSums& b : blocks) ms.push_back(b.steps_ms[s]);
      mean.steps_ms.push_back(MeanOf(ms, calm));
    }
    return mean;
  }

  std::function<void()> host_;
  Watch* watch_;
  DisturbanceMeter* meter_ = nullptr;
  Runnable* executor_ = nullptr;
  RunBuffers* buffers_ = nullptr;
  std::vector<int64_t> ns_;
  std::vector<StepSums> blocks_;
  std::vector<std::vector<double>> all_steps_;  // by step, by run
  double counted_ms_ = 0;
  int64_t runs_ = 0;
  std::vector<RecordedRun> recorded_;
  double first_ = 0;  // when the first of them began
};

// `prepare` runs before each turn.
Result<std::vector<StepProfile>> MeasureBlocks(std::vector<StepSamples>& samples,
                                               const std::function<Status()>& prepare,
                                               const Limits& limits,
                                               const MeasureOptions& options) {
  const auto enough = [&](const StepSamples& s) {
    const double wanted_ms = options.duration_s * 1e3;
    // Slow programs that are compared are measured longer, so that their differences come with
    // intervals.
    const bool in_parts = samples.size() == 1 || s.has_parts() || s.counted_ms() >= 3 * wanted_ms;
    return s.runs() >= options.max_runs ||
           (s.runs() >= options.min_runs && s.counted_ms() >= wanted_ms && in_parts);
  };
  DisturbanceMeter meter(options.watch);
  for (StepSamples& s : samples) s.Tell(&meter);
  for (size_t turn = 0; turn == 0 || !std::all_of(samples.begin(), samples.end(), enough); ++turn) {
    EVOQ_TRY(prepare());
    double done = 1;
    for (size_t i = 0; i < samples.size(); ++i) {
      StepSamples& s = samples[(turn + i) % samples.size()];
      if (turn == 0) EVOQ_TRY(s.WarmUp(options.warmup_ms));
      EVOQ_TRY(s.MeasureBlock());
      done = std::min(done, s.counted_ms() / std::max(options.duration_s * 1e3, 1e-9));
    }
    meter.Round(samples.front().last_block_ms() / samples.back().last_block_ms());
    if (options.progress) EVOQ_TRY(options.progress(done));
  }
  std::vector<StepProfile> profiles;
  for (StepSamples& s : samples) {
    profiles.push_back(s.Profile(limits));
    profiles.back().disturbance = meter.Read();
  }
  return profiles;
}

}  // namespace

void SetRates(StepTime& t, const Limits& limits) {
  const double ns = t.ms * 1e6;
  const double share =
      t.ms > 0 ? RooflineNs(limits, t.peak, t.macs, t.bytes, t.memory_bytes) / ns : 0;
  t.gops = t.ms > 0 ? 2.0 * static_cast<double>(t.macs) / ns : 0;
  t.roofline_share = std::min(1.0, share);
  t.beyond_roofline = std::max(1.0, share);
}

void SetTimes(StepProfile& profile, const StepSums& sums, const Limits& limits) {
  profile.total_ms = sums.total_ms;
  profile.steps_ms = 0;
  for (size_t s = 0; s < profile.steps.size(); ++s) {
    StepTime& t = profile.steps[s];
    t.ms = sums.steps_ms[s];
    profile.steps_ms += t.ms;
    SetRates(t, limits);
  }
  profile.host_ms = sums.timed_ms - profile.steps_ms;
  for (StepTime& t : profile.steps) t.share = profile.steps_ms > 0 ? t.ms / profile.steps_ms : 0;
}

double WithoutClockMs(const StepProfile& profile, size_t s) {
  const double clock_ms = std::max(profile.steps_ms - profile.total_ms, 0.0) /
                          static_cast<double>(profile.steps.size());
  return std::max(profile.steps[s].ms - clock_ms, 0.2 * profile.steps[s].ms);
}

void ScaleTo(StepProfile& profile, double total_ms) {
  if (!(profile.total_ms > 0)) return;
  const double factor = total_ms / profile.total_ms;
  const auto scale = [&](double& ms) { ms *= factor; };
  for (double* ms : {&profile.total_ms, &profile.steps_ms, &profile.host_ms}) scale(*ms);
  for (StepTime& t : profile.steps) {
    for (double* ms : {&t.ms, &t.median_ms, &t.mean_ms}) scale(*ms);
    t.gops /= factor;
    // A share of the limits may come to lie above or below them.
    const double share = t.roofline_share * t.beyond_roofline / factor;
    t.roofline_share = std::min(1.0, share);
    t.beyond_roofline = std::max(1.0, share);
  }
  for (StepSums& part : profile.parts) {
    scale(part.total_ms);
    scale(part.timed_ms);
    std::for_each(part.steps_ms.begin(), part.steps_ms.end(), scale);
  }
  std::for_each(profile.turns_ms.begin(), profile.turns_ms.end(), scale);
  for (RecordedRun& run : profile.recorded) {
    scale(run.start_ms);
    scale(run.ms);
    std::for_each(run.steps_ms.begin(), run.steps_ms.end(), scale);
  }
}

Result<std::vector<StepProfile>> MeasureStepsInterleaved(std::span<const Runnable* const> executors,
                                                         const Limits& limits,
                                                         const MeasureOptions& options) {
  std::vector<StepSamples> samples;
  for (size_t i = 0; i < executors.size(); ++i)
    samples.emplace_back(i + 1 == executors.size() ? options.host : nullptr, options.watch);
  std::vector<std::unique_ptr<Runnable>> fresh(executors.size());
  std::vector<RunBuffers> buffers(executors.size());
  const auto prepare = [&]() -> Status {
    // The old ones stay until all new ones are made: otherwise these would lie where those lay.
    std::vector<std::unique_ptr<Runnable>> made;
    std::vector<RunBuffers> made_buffers;
    for (const Runnable* executor : executors) {
      EVOQ_ASSIGN(auto another, executor->Fresh());
      made_buffers.push_back(MakeBuffers(*another));
      made.push_back(std::move(another));
    }
    fresh = std::move(made);
    buffers = std::move(made_buffers);
    for (size_t i = 0; i < samples.size(); ++i) samples[i].Use(*fresh[i], buffers[i]);
    return {};
  };
  return MeasureBlocks(samples, prepare, limits, options);
}

Result<StepProfile> MeasureSteps(Runnable& executor, RunBuffers& buffers, const Limits& limits,
                                 const MeasureOptions& options) {
  std::vector<StepSamples> one;
  one.emplace_back(options.host, options.watch);
  one[0].Use(executor, buffers);
  EVOQ_ASSIGN(auto profiles, MeasureBlocks(one, [] { return Status(); }, limits, options));
  return std::move(profiles[0]);
}

int64_t PeakRssBytes() {
  // ru_maxrss also counts what the process that started this one had in memory before it became
  // evoq.
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::atoll(line.c_str() + 6) * 1024;
  }
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<int64_t>(usage.ru_maxrss) * 1024;
}

}  // namespace evoq
