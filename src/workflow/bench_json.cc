#include "workflow/bench_json.h"

#include <algorithm>
#include <vector>

namespace evoq {

nlohmann::json TimesJson(const RunTimes& times) {
  return {{"runs", times.runs()},           {"p50_ms", times.median()},
          {"mean_ms", times.mean()},        {"min_ms", times.min()},
          {"p90_ms", times.Percentile(90)}, {"p95_ms", times.Percentile(95)},
          {"p99_ms", times.Percentile(99)}};
}

int64_t BatchOf(const Runnable& executor) {
  if (executor.input_types().empty()) return 1;
  const std::vector<int64_t> sizes = executor.input_types()[0].shape.sizes();
  return sizes.empty() ? 1 : sizes[0];
}

namespace {

// What a stream's runs took with the time for which it had no processor between them, which is
// where a system likes to take it away: measuring calls the system there. A wait is what lies
// between two runs beyond the cost of measuring.
double WithWaitsMs(const RunTimes& times) {
  constexpr double kMostCostMs = 0.02;
  double ms = times.mean() * static_cast<double>(times.runs()), cost = kMostCostMs;
  std::vector<double> gaps;
  for (size_t i = 1; i < times.spans.size(); ++i) {
    const RunSpan& before = times.spans[i - 1];
    gaps.push_back(times.spans[i].start_ms - before.start_ms - before.ms);
    cost = std::min(cost, gaps.back());
  }
  for (const double gap : gaps) ms += gap - cost;
  return ms;
}

}  // namespace

double PerSecond(std::span<const RunTimes> streams, int64_t batch) {
  // Runs of one stream may have been measured in turn with those of another model.
  if (streams.size() == 1) return static_cast<double>(batch) * 1e3 / streams[0].mean();
  double per_second = 0;
  for (const RunTimes& times : streams)
    per_second += static_cast<double>(batch * times.runs()) * 1e3 / WithWaitsMs(times);
  return per_second;
}

nlohmann::json BenchJson(const std::string& model, const Runnable& executor, Isa isa,
                         std::span<const RunTimes> streams, const RunTimes& all, double load_ms) {
  const int64_t batch = BatchOf(executor);
  nlohmann::json out = TimesJson(all);
  out.update({{"model", model},
              {"isa", IsaName(isa)},
              {"threads", executor.threads()},
              {"batch", batch},
              {"streams", streams.size()},
              {"per_second", PerSecond(streams, batch)},
              {"load_ms", load_ms},
              {"peak_rss_bytes", PeakRssBytes()},
              {"arena_bytes", executor.arena_bytes()},
              {"weight_bytes", executor.program().weight_bytes}});
  return out;
}

}  // namespace evoq
