#include "workflow/bench_json.h"

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

double PerSecond(std::span<const RunTimes> streams, int64_t batch) {
  double per_second = 0;
  for (const RunTimes& times : streams)
    per_second += static_cast<double>(batch) * 1e3 / times.mean();
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
