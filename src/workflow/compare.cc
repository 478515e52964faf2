#include "workflow/compare.h"

#include <algorithm>

#include "base/file.h"
#include "base/json_file.h"
#include "base/ms_text.h"
#include "base/printable.h"
#include "base/stopwatch.h"
#include "report/page_data.h"
#include "workflow/bench_json.h"
#include "workflow/report_model.h"

namespace evoq {
namespace {

using nlohmann::json;

struct Side {
  std::unique_ptr<Engine> engine;
  std::shared_ptr<Runnable> executor;
  double load_ms = 0;
};

Result<Side> Load(const CompareJob& job, const std::string& path) {
  Side side;
  const Stopwatch watch;
  EVOQ_ASSIGN(
      ModelToMeasure loaded,
      LoadToMeasure(path, job.threads, {job.shapes, job.inputs, job.batch, true, job.phase}));
  EVOQ_ASSIGN(side.executor, RunnableOf(loaded));
  side.engine = std::move(loaded.engine);
  side.load_ms = watch.ms();
  return side;
}

// B as the model, A as its baseline. Steps are shown as parts of the compared times, so that all
// figures belong together.
Status WriteReport(const CompareJob& job, const Side& a, const Side& b, const Limits& limits,
                   std::vector<StepProfile> profiles, const Comparison& comparison) {
  Report report;
  report.limits = limits;
  ScaleTo(profiles[0], comparison.a_ms);
  ScaleTo(profiles[1], comparison.b_ms);
  EVOQ_ASSIGN(report.model, ForReport(job.b, "", *b.executor, profiles[1]));
  EVOQ_ASSIGN(report.baseline, ForReport(job.a, "", *a.executor, profiles[0]));
  report.comparison = comparison;
  if (!job.names.first.empty()) report.baseline->name = job.names.first;
  if (!job.names.second.empty()) report.model.name = job.names.second;
  json page = ReportData(report);
  if (job.page) page.update(job.page(comparison));
  return WriteFileAtomic(job.report, PageOf(page));
}

// As parts of the compared times, as a report shows them.
std::vector<StepChange> ScaledChanges(std::span<const StepProfile> profiles, const Comparison& c) {
  std::vector<StepChange> changes = ChangedSteps(profiles[0], profiles[1]);
  for (StepChange& change : changes) {
    change.a_ms *= c.a_ms / profiles[0].total_ms;
    change.b_ms *= c.b_ms / profiles[1].total_ms;
  }
  return changes;
}

Status CompareModels(const CompareJob& job, const Follow& follow, Compared& out) {
  EVOQ_TRY(follow.At("loading", 0));
  EVOQ_ASSIGN(const Side a, Load(job, job.a));
  EVOQ_ASSIGN(const Side b, Load(job, job.b));
  Runnable* const both[] = {a.executor.get(), b.executor.get()};
  const std::string names[] = {job.a, job.b};
  EVOQ_TRY(MeasureAlike(both, names));
  EVOQ_ASSIGN(const Isa isa, SelectIsa());
  CompareOptions options;
  options.duration_s = job.duration_s;
  options.warmup_ms = job.warmup_ms;
  options.rounds = job.rounds;
  options.progress = follow.Stage("comparing");
  EVOQ_ASSIGN(const CompareRuns runs, CompareExecutors(*a.executor, *b.executor, options));
  out.result = runs.result;
  out.a_json = BenchJson(job.a, *a.executor, isa, std::span(&runs.a, 1), runs.a, a.load_ms);
  out.b_json = BenchJson(job.b, *b.executor, isa, std::span(&runs.b, 1), runs.b, b.load_ms);
  out.steps_known = out.result.verdict != Verdict::kSame;
  if (!out.steps_known && job.report.empty()) return {};
  Limits limits;
  if (!job.report.empty()) limits = MeasureLimits(isa, a.executor->threads());
  MeasureOptions measure;
  measure.duration_s = job.duration_s / 4;
  measure.progress = follow.Stage("measuring steps");
  const Runnable* const executors[] = {a.executor.get(), b.executor.get()};
  EVOQ_ASSIGN(auto profiles, MeasureStepsInterleaved(executors, limits, measure));
  if (out.steps_known) out.changed = ScaledChanges(profiles, out.result);
  if (job.report.empty()) return {};
  out.report = job.report;
  return WriteReport(job, a, b, limits, std::move(profiles), out.result);
}

bool IsSaved(const std::string& path) { return LowerExtension(path) == ".json"; }

// The runs that `bench --export-times` saved (trtexec's layout), in the order in which they ran.
Result<std::vector<double>> SavedRuns(const std::string& path) {
  EVOQ_ASSIGN(const json runs, ReadJsonFile(path));
  std::vector<double> ms;
  for (size_t i = 0; runs.is_array() && i < runs.size(); ++i) {
    const auto it = runs[i].is_object() ? runs[i].find("latencyMs") : runs[i].end();
    if (!runs[i].is_object() || it == runs[i].end() || !it->is_number() || !(it->get<double>() > 0))
      return InvalidInput("{}: run {} has no positive latencyMs", path, i);
    ms.push_back(it->get<double>());
  }
  if (ms.empty())
    return InvalidInput(
        "{}: no runs; expected what `evoq bench --export-times F` or trtexec --exportTimes writes",
        path);
  return ms;
}

json SavedJson(const std::string& path, std::vector<double> ms) {
  std::sort(ms.begin(), ms.end());
  const RunTimes times{ms};
  json out = TimesJson(times);
  out["model"] = path;
  return out;
}

Status CompareSaved(const CompareJob& job, Compared& out) {
  EVOQ_ASSIGN(const std::vector<double> a, SavedRuns(job.a));
  EVOQ_ASSIGN(const std::vector<double> b, SavedRuns(job.b));
  out.result = CompareSamples(a, b, CompareOptions().least_effect);
  out.a_json = SavedJson(job.a, a);
  out.b_json = SavedJson(job.b, b);
  return {};
}

}  // namespace

Result<Compared> Compare(const CompareJob& job, const Follow& follow) {
  if (IsSaved(job.a) != IsSaved(job.b))
    return Fail(ErrorCode::kUsage,
                "compare two models, or two files of `bench --export-times`, not one of each");
  if (!(job.duration_s > 0) || !(job.warmup_ms >= 0) || job.rounds < 3 || job.rounds > 1000)
    return Fail(ErrorCode::kUsage,
                "--duration-s {}, --warmup-ms {}, --rounds {}: expected more than 0, at least 0, 3 "
                "to 1000",
                job.duration_s, job.warmup_ms, job.rounds);
  if (!job.report.empty()) {
    if (IsSaved(job.a))
      return Fail(ErrorCode::kUsage, "--report needs two models: saved times have no steps");
    EVOQ_TRY(CheckOutputPath(job.report));
  }
  Compared out;
  out.a = job.a;
  out.b = job.b;
  EVOQ_TRY(IsSaved(job.a) ? CompareSaved(job, out) : CompareModels(job, follow, out));
  return out;
}

Status CheckNotSlower(const Comparison& result, double fail_slower) {
  const double slower_percent = 100 * (1 / result.speedup - 1);
  if (fail_slower < 0 || result.verdict != Verdict::kSlower || slower_percent <= fail_slower)
    return {};
  return Fail(ErrorCode::kConditionFailed, "B is {:.1f}% slower than A, at most {:g}% are allowed",
              slower_percent, fail_slower);
}

Told Tell(const Compared& compared) {
  constexpr size_t kShown = 3;  // steps
  const Comparison& c = compared.result;
  Told told;
  told.text = FormatPrintable("A {}: {} ms\nB {}: {} ms\n", compared.a, MsText(c.a_ms), compared.b,
                              MsText(c.b_ms));
  const bool same = c.verdict == Verdict::kSame;
  told.text += same ? "same: B runs at " : fmt::format("B is {}: ", VerdictName(c.verdict));
  told.text += fmt::format("{:.3f}x of A's speed, 95% interval {:.3f} to {:.3f}\n", c.speedup,
                           c.low, c.high);
  if (const std::string disturbed = ToText(c.disturbance); !disturbed.empty())
    told.text += FormatPrintable("  disturbed, which makes the interval wider: {}\n", disturbed);
  told.json = {{"a", compared.a_json}, {"b", compared.b_json}};
  told.json.update(ToJson(c));
  if (compared.steps_known) {
    json& steps = told.json["steps"] = json::array();
    for (const StepChange& s : compared.changed) {
      if (steps.size() < kShown)
        told.text +=
            FormatPrintable("  step {}: {} ms in A, {} ms in B ({:+.1f}% of A's run)\n", s.name,
                            MsText(s.a_ms), MsText(s.b_ms), 100 * (s.b_ms - s.a_ms) / c.a_ms);
      steps.push_back({{"name", s.name}, {"a_ms", s.a_ms}, {"b_ms", s.b_ms}});
    }
  }
  if (!compared.report.empty()) told.text += FormatPrintable("wrote {}\n", compared.report);
  return told;
}

}  // namespace evoq
