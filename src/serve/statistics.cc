#include "serve/statistics.h"

#include <algorithm>
#include <cmath>

namespace evoq::serve {
namespace {

constexpr double kShortest = 1.0 / 16384;  // seconds

int StepOf(double seconds) {
  const double step = 4 * std::log2(std::max(seconds, kShortest) / kShortest);
  return std::min(static_cast<int>(step), kLatencySteps - 1);
}

int64_t NumberAt(Statistics::Clock::time_point now) {
  return std::chrono::duration_cast<std::chrono::seconds>(now.time_since_epoch()).count() /
         kSliceSeconds;
}

}  // namespace

double HistorySlice::Quantile(double share) const {
  const double wanted = share * success;
  uint64_t below = 0;
  for (int step = 0; step < kLatencySteps; ++step) {
    below += latency[static_cast<size_t>(step)];
    // The middle of the step.
    if (below > 0 && static_cast<double>(below) >= wanted)
      return kShortest * std::exp2((step + 0.5) / 4);
  }
  return 0;
}

HistorySlice& Statistics::SliceAt(Clock::time_point now) {
  const int64_t number = NumberAt(now);
  HistorySlice& slice = history_[static_cast<size_t>(number) % history_.size()];
  if (slice.number != number) {
    slice = {};
    slice.number = number;
  }
  return slice;
}

std::vector<HistorySlice> Statistics::History(Clock::time_point now) const {
  std::vector<HistorySlice> slices;
  const std::lock_guard lock(mutex_);
  for (int64_t number = NumberAt(now) - kSlices; number < NumberAt(now); ++number) {
    HistorySlice slice;
    if (number >= 0) slice = history_[static_cast<size_t>(number) % history_.size()];
    if (slice.number != number) slice = {};
    slice.number = number;
    slices.push_back(slice);
  }
  return slices;
}

void Statistics::Succeeded(int64_t samples, const InferenceTimes& times, Clock::time_point now) {
  const double seconds = static_cast<double>(times.total_ns()) * 1e-9;
  const auto bucket =
      static_cast<size_t>(std::lower_bound(kLatencyBounds.begin(), kLatencyBounds.end(), seconds) -
                          kLatencyBounds.begin());
  const int64_t now_ms = std::chrono::duration_cast<std::chrono::milliseconds>(
                             std::chrono::system_clock::now().time_since_epoch())
                             .count();
  const std::lock_guard lock(mutex_);
  read_.samples += static_cast<uint64_t>(samples);
  read_.last_inference_ms = now_ms;
  read_.success.Add(times.total_ns());
  read_.queue.Add(times.queue_ns);
  read_.input.Add(times.input_ns);
  read_.infer.Add(times.infer_ns);
  read_.output.Add(times.output_ns);
  ++read_.latency[bucket];
  HistorySlice& slice = SliceAt(now);
  ++slice.success;
  ++slice.latency[static_cast<size_t>(StepOf(seconds))];
}

void Statistics::Shadowed(const ShadowRead& more) {
  const std::lock_guard lock(mutex_);
  ShadowRead& all = read_.shadow;
  all.requests += more.requests;
  all.skipped += more.skipped;
  all.rows += more.rows;
  all.agreed += more.agreed;
  all.own_ns += more.own_ns;
  all.other_ns += more.other_ns;
}

void Statistics::Failed(Why why, int64_t total_ns, Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  ++SliceAt(now).failure;
  read_.failure.Add(total_ns);
  ++read_.failures[NameOf(why)];
}

void Statistics::Executed(int64_t samples, const InferenceTimes& times) {
  const std::lock_guard lock(mutex_);
  ++read_.executions;
  StatisticsRead::Batch& batch = read_.batches[samples];
  batch.input.Add(times.input_ns);
  batch.infer.Add(times.infer_ns);
  batch.output.Add(times.output_ns);
}

void Statistics::Wrote(const TokensRead& more) {
  const std::lock_guard lock(mutex_);
  read_.tokens.prompt += more.prompt;
  read_.tokens.cached += more.cached;
  read_.tokens.text += more.text;
}

StatisticsRead Statistics::Read() const {
  const std::lock_guard lock(mutex_);
  return read_;
}

}  // namespace evoq::serve
