// Timing a compiled model: whole runs and single steps.
#pragma once

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "base/on_progress.h"
#include "profile/disturbance.h"
#include "profile/limits.h"
#include "runtime/buffers.h"

namespace evoq {

struct MeasureOptions {
  double warmup_ms = 200;
  double duration_s = 3;
  // No run begins so long after the first one that warms up, whatever min_runs says, once each has
  // run. Of whole runs; steps are measured without a limit.
  double limit_s = std::numeric_limits<double>::infinity();
  int64_t min_runs = 10;
  int64_t max_runs = 1 << 20;
  OnProgress progress;
  std::function<void()>
      host;  // what the caller does for each run besides running (decoding, copying); may be null
  Watch* watch = ThisMachine();
  DisturbanceMeter* meter = nullptr;  // hears of each measured whole run; may be null
};

// One run: when it began, since the first measured run did, and what it took.
struct RunSpan {
  double start_ms = 0, ms = 0;
  double thread_ms = 0;      // of `ms`: when the calling thread had a processor
  bool interrupted = false;  // a thread of this process was taken off its processor meanwhile
};

// Times of single runs, in milliseconds.
struct RunTimes {
  std::vector<double> sorted_ms;
  std::vector<RunSpan> spans;  // in order; empty where runs of several streams were put together

  int64_t runs() const { return static_cast<int64_t>(sorted_ms.size()); }
  double min() const { return sorted_ms.front(); }
  double max() const { return sorted_ms.back(); }
  double mean() const;
  double median() const { return Percentile(50); }
  // Standard deviation over mean: how unstable the machine was.
  double variation() const;
  // Linear interpolation between closest ranks; `percent` in [0, 100].
  double Percentile(double percent) const;
  // What a run takes where nothing disturbs it: a low quantile (lower quartile unless told) of the
  // runs that were not interrupted. Of fewer than three such runs nothing is known: then of all
  // runs, and where they are on `one_thread`, of the time for which that had a processor, where the
  // system tells. Needs spans.
  double CalmMs(bool one_thread, double percent = 25) const;
};

// Warms up, then runs until both the duration and min_runs are reached.
Result<RunTimes> MeasureRuns(Runnable& executor, RunBuffers& buffers,
                             const MeasureOptions& options);

// The same for anything that runs.
Result<RunTimes> MeasureCalls(const std::function<Status()>& call, const MeasureOptions& options);

// Runs several things in turn, one run each, so that a change of the machine's speed hits all
// alike.
Result<std::vector<RunTimes>> MeasureCallsInterleaved(
    std::span<const std::function<Status()>> calls, const MeasureOptions& options);
Result<std::vector<RunTimes>> MeasureInterleaved(std::span<Runnable* const> executors,
                                                 std::span<RunBuffers> buffers,
                                                 const MeasureOptions& options);

// What one step took. `ms` is of the calm blocks (see StepProfile); the times of steps add up.
struct StepTime {
  std::string name, op, kernel, variant, shape;
  Precision precision = Precision::kAny;
  Peak peak = Peak::kMemory;
  double ms = 0, median_ms = 0, mean_ms = 0;  // the latter two over all runs
  double share = 0;                           // of the sum of all steps
  int64_t macs = 0, bytes = 0;
  int64_t memory_bytes = 0;   // of `bytes`, those that no cache holds from one run to the next
  double gops = 0;            // 2 * macs / time
  double roofline_share = 0;  // roofline time / measured time, at most 1
  // Faster than the measured limits allow, by so many times: what it reads lies nearer than the L3,
  // or the limits were measured on a busy machine. 1 otherwise.
  double beyond_roofline = 1;
};

// One run as it happened, since the first one began.
struct RecordedRun {
  double start_ms = 0, ms = 0;
  std::vector<double> steps_ms;  // empty for a run without step timing
};

// What a run takes without and with step timing, and each of its steps.
struct StepSums {
  double total_ms = 0, timed_ms = 0;
  std::vector<double> steps_ms;
};

// Runs are measured in blocks of some 10 ms. Times are means over the calm blocks, those within 3%
// of the fastest tenth, of runs without and with step timing each for themselves: what disturbs a
// run only ever adds time. Of each block the middle half of the runs counts, ordered by what they
// took in all. total_ms + tax_ms() == steps_ms + host_ms.
struct StepProfile {
  double total_ms = 0;  // a whole run without step timing
  int64_t runs = 0;     // measured with step timing
  double steps_ms = 0;  // sum of the steps
  double host_ms =
      0;  // what a run takes outside its steps: MeasureOptions::host, checks, waking threads
  double busy = 0;  // how much longer a run took in the median of all blocks than in the calm ones:
                    // 0.1 is 10%
  std::vector<StepTime> steps;
  // The same from each eighth of the measured time alone, for intervals; empty where there were too
  // few blocks. Profiles that were measured in turn have the same eighths.
  std::vector<StepSums> parts;
  std::vector<double> turns_ms;  // what a run took in each block, in order: of profiles that were
                                 // measured in turn the same turns
  Disturbance disturbance;       // of all that was measured in turn
  std::vector<RecordedRun> recorded;  // the first measured runs, in order

  double tax_ms() const {
    return steps_ms + host_ms - total_ms;
  }  // what timing the steps adds to a run
};
// Of the bytes that each step reads, those that come from memory: constants and inputs of the
// model, where a run reads more of these than a cache of `cache_bytes` keeps until the next; else
// none.
std::vector<int64_t> MemoryBytes(const Program& program, int64_t cache_bytes);
// gops, roofline_share and beyond_roofline of a step whose time, macs and bytes are known.
void SetRates(StepTime& step, const Limits& limits);
// What step `s` takes without its even share of what reading the clock between steps adds: the sum
// of the steps beyond a whole run. At least a fifth of what was measured.
double WithoutClockMs(const StepProfile& profile, size_t s);
// Multiplies all times so that a run takes `total_ms`: a profile beside a comparison shows that
// one's times.
void ScaleTo(StepProfile& profile, double total_ms);
// Sets the times of `profile` to these sums.
void SetTimes(StepProfile& profile, const StepSums& sums, const Limits& limits);

Result<StepProfile> MeasureSteps(Runnable& executor, RunBuffers& buffers, const Limits& limits,
                                 const MeasureOptions& options);
// Several programs in turn, a block of each, with executors made anew (like `executors`) in each
// turn: where memory lies is luck, and a change of the machine's speed hits all alike.
// `options.duration_s` is for each of them; `host` is the last one's.
Result<std::vector<StepProfile>> MeasureStepsInterleaved(std::span<const Runnable* const> executors,
                                                         const Limits& limits,
                                                         const MeasureOptions& options);

// Peak resident memory of this process so far, in bytes.
int64_t PeakRssBytes();

}  // namespace evoq
