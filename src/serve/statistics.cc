#include "serve/statistics.h"

#include <algorithm>
#include <chrono>

namespace evoq::serve {

void Statistics::Succeeded(int64_t samples, const InferenceTimes& times) {
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
}

void Statistics::Failed(Why why, int64_t total_ns) {
  const std::lock_guard lock(mutex_);
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

StatisticsRead Statistics::Read() const {
  const std::lock_guard lock(mutex_);
  return read_;
}

}  // namespace evoq::serve
