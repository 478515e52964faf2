#include "workflow/benchmark.h"

#include <algorithm>

#include "base/file.h"
#include "base/json_file.h"
#include "base/ms_text.h"
#include "base/output_file.h"
#include "base/printable.h"
#include "base/stopwatch.h"
#include "report/page_data.h"
#include "workflow/bench_json.h"
#include "workflow/deployment.h"
#include "workflow/models.h"
#include "workflow/report_model.h"
#include "workflow/streams.h"
#include "workflow/to_measure.h"

namespace evoq {
namespace {

using nlohmann::json;

constexpr char kFormat[] = "evoq_benchmark";
constexpr int kVersion = 1;

json RunsJson(const StreamTimes& times) {
  json runs = json::array();
  for (const RunTimes& stream : times.streams) {
    if (stream.spans.empty()) {
      for (const double ms : stream.sorted_ms) runs.push_back({{"latencyMs", ms}});
    }
    for (const RunSpan& span : stream.spans) runs.push_back({{"latencyMs", span.ms}});
  }
  return runs;
}

struct Saved {
  json bench, page;
  std::vector<double> ms;
};

// What the page reads of a model.
bool IsReportModel(const json& model) {
  if (!model.is_object() || !model.contains("name") || !model["name"].is_string()) return false;
  for (const char* number : {"file_bytes", "p50_ms"}) {
    if (!model.contains(number) || !model[number].is_number()) return false;
  }
  const auto has = [&](const char* object, const char* member) {
    return model.contains(object) && model[object].is_object() && model[object].contains(member);
  };
  return has("memory", "arena_bytes") && has("memory", "live_bytes") &&
         has("memory", "planned_bytes") && has("profile", "steps") &&
         model["profile"]["steps"].is_array();
}

Result<Saved> ReadSaved(const std::string& path) {
  EVOQ_ASSIGN(json file, ReadJsonFile(path, size_t{1} << 28));
  const auto fail = [&](const char* what) {
    return InvalidInput("{}: {}; expected what `benchmark --output={}` writes", path, what, path);
  };
  if (!file.is_object() || !file.contains(kFormat)) return fail("no saved benchmark");
  if (file[kFormat] != kVersion) return fail("a benchmark saved by another version");
  const json& models = JsonArray(file["page"], "models");
  if (!file.contains("bench") || !file["bench"].is_object() || models.size() != 1 ||
      !IsReportModel(models[0]) || !file["page"].contains("limits"))
    return fail("parts are missing");
  Saved saved;
  for (const json& run : JsonArray(file, "runs")) {
    const double ms = JsonNumber(run, "latencyMs", 0);
    if (!(ms > 0)) return fail("a run without a positive latencyMs");
    saved.ms.push_back(ms);
  }
  if (saved.ms.empty()) return fail("no runs");
  saved.bench = std::move(file["bench"]);
  saved.page = std::move(file["page"]);
  return saved;
}

std::string Line(const json& bench) {
  return fmt::format("latency p50 {} ms, p99 {} ms, {:.1f} per second, arena {:.2f} MB",
                     MsText(JsonNumber(bench, "p50_ms")), MsText(JsonNumber(bench, "p99_ms")),
                     JsonNumber(bench, "per_second"), JsonNumber(bench, "arena_bytes") / 1e6);
}

}  // namespace

Result<Benchmarked> Benchmark(const BenchmarkJob& job, const Follow& follow) {
  EVOQ_TRY(CheckThreads(job.threads));
  EVOQ_TRY(CheckOutput(job.output, {job.model}));
  EVOQ_TRY(follow.At("loading", 0));
  const Stopwatch watch;
  EVOQ_ASSIGN(const ModelToMeasure model,
              LoadToMeasure(job.model, job.threads, {.batch = job.batch}));
  EVOQ_ASSIGN(const StreamChoice chosen, ChosenStreams(model.engine->model().graph));
  const int streams = std::max(1, job.streams > 0 ? job.streams : chosen.streams);
  EVOQ_TRY(CheckStreams(model, job.model, streams));
  EVOQ_ASSIGN(FirstRun first, RunFirst(model));
  const double load_ms = watch.ms();
  MeasureOptions options;
  options.warmup_ms = job.warmup_ms;
  options.duration_s = job.duration_s;
  options.min_runs = job.runs;
  if (streams == 1) options.progress = follow.Stage("measuring");
  EVOQ_ASSIGN(const StreamTimes times,
              MeasureStreams(*first.runnable, first.buffers, streams, options));
  const RunTimes all = times.all();
  Benchmarked out{.output = job.output};
  out.bench =
      BenchJson(job.model, *first.runnable, model.engine->isa(), times.streams, all, load_ms);

  Report report;
  EVOQ_ASSIGN(const Isa isa, SelectIsa());
  report.limits = MeasureLimits(isa, first.runnable->threads());
  options.progress = follow.Stage("measuring steps");
  options.duration_s = job.duration_s / 4;
  EVOQ_ASSIGN(StepProfile steps,
              MeasureSteps(*first.runnable, first.buffers, report.limits, options));
  ScaleTo(steps, all.median());
  EVOQ_ASSIGN(report.model, ForReport(job.model, "", *first.runnable, steps));
  const json file = {{kFormat, kVersion},
                     {"bench", out.bench},
                     {"runs", RunsJson(times)},
                     {"page", ReportData(report)}};
  EVOQ_TRY(
      WriteFileAtomic(job.output, file.dump(1, ' ', false, json::error_handler_t::replace) + "\n"));
  return out;
}

Told Tell(const Benchmarked& done) {
  Told told;
  told.json = done.bench;
  told.text = FormatPrintable("{}: {}\nwrote {}\n", JsonText(done.bench, "model"), Line(done.bench),
                              done.output);
  return told;
}

Result<PerfCompared> PerfCompare(const PerfCompareJob& job) {
  if (!job.report.empty()) EVOQ_TRY(CheckOutputPath(job.report));
  EVOQ_ASSIGN(Saved a, ReadSaved(job.baseline));
  EVOQ_ASSIGN(Saved b, ReadSaved(job.optimized));
  PerfCompared out{.baseline = a.bench, .optimized = b.bench, .report = job.report};
  out.result = CompareSamples(a.ms, b.ms, CompareOptions().least_effect);
  if (job.report.empty()) return out;
  json page = std::move(b.page);
  page["models"].push_back(a.page["models"][0]);
  page["compare"] = ToJson(out.result);
  EVOQ_TRY(WriteFileAtomic(job.report, PageOf(page)));
  return out;
}

Told Tell(const PerfCompared& compared) {
  const Comparison& c = compared.result;
  Told told;
  told.json = {{"a", compared.baseline}, {"b", compared.optimized}};
  told.json.update(ToJson(c));
  told.text = FormatPrintable("baseline  {}: {}\noptimized {}: {}\n",
                              JsonText(compared.baseline, "model"), Line(compared.baseline),
                              JsonText(compared.optimized, "model"), Line(compared.optimized));
  told.text += fmt::format(
      "{}: {:.3f}x of the baseline's speed, 95% interval {:.3f} to {:.3f}; latency {:+.1f}%\n",
      VerdictName(c.verdict), c.speedup, c.low, c.high, 100 * (1 / c.speedup - 1));
  if (!compared.report.empty()) told.text += FormatPrintable("wrote {}\n", compared.report);
  return told;
}

}  // namespace evoq
