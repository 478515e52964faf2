#include "profile/compare.h"

#include "base/file.h"
#include "base/json_file.h"
#include "base/ms_text.h"
#include "cli/bench_json.h"
#include "cli/common.h"
#include "cli/measure_regions.h"
#include "cli/report_model.h"
#include "cli/verb.h"

namespace evoq {
namespace {

using nlohmann::json;

struct Options {
  std::string a, b, report;
  std::vector<std::string> shapes, inputs;
  int batch = 0;
  CompareOptions compare;
  double fail_slower = -1;
};

struct Side {
  std::unique_ptr<Engine> engine;
  std::shared_ptr<Runnable> executor;
  double load_ms = 0;
};

Result<Side> Load(const Options& o, const std::string& path, int threads) {
  Side side;
  const Stopwatch watch;
  EVOQ_ASSIGN(ModelToMeasure loaded,
              LoadToMeasure(path, threads, {o.shapes, o.inputs, o.batch, true}));
  EVOQ_ASSIGN(side.executor, RunnableOf(loaded, o.inputs));
  side.engine = std::move(loaded.engine);
  side.load_ms = watch.ms();
  return side;
}

// B as the model, A as its baseline. Steps are shown as parts of the compared times, so that all
// figures belong together.
Status WriteReport(const Options& o, const Side& a, const Side& b, const Limits& limits,
                   std::vector<StepProfile> profiles, const Comparison& comparison) {
  Report report;
  report.limits = limits;
  ScaleTo(profiles[0], comparison.a_ms);
  ScaleTo(profiles[1], comparison.b_ms);
  EVOQ_ASSIGN(report.model, ForReport(o.b, "", *b.executor, profiles[1]));
  EVOQ_ASSIGN(report.baseline, ForReport(o.a, "", *a.executor, profiles[0]));
  report.comparison = comparison;
  EVOQ_TRY(WriteFileAtomic(o.report, ToHtml(report)));
  Out("wrote {}\n", o.report);
  return {};
}

void TellVerdict(const Options& o, const Comparison& c) {
  Out("A {}: {} ms\nB {}: {} ms\n", o.a, MsText(c.a_ms), o.b, MsText(c.b_ms));
  if (c.verdict == Verdict::kSame) {
    Out("same: B runs at {:.3f}x of A's speed, 95% interval {:.3f} to {:.3f}\n", c.speedup, c.low,
        c.high);
  } else {
    Out("B is {}: {:.3f}x of A's speed, 95% interval {:.3f} to {:.3f}\n", VerdictName(c.verdict),
        c.speedup, c.low, c.high);
  }
  if (const std::string disturbed = ToText(c.disturbance); !disturbed.empty())
    Out("  disturbed, which makes the interval wider: {}\n", disturbed);
}

// The steps that differ most, by name: where the verdict comes from. As parts of the compared
// times, as a report shows them.
json TellChangedSteps(std::span<const StepProfile> profiles, const Comparison& comparison) {
  constexpr size_t kShown = 3;
  const double a = comparison.a_ms / profiles[0].total_ms,
               b = comparison.b_ms / profiles[1].total_ms;
  json steps = json::array();
  for (StepChange c : ChangedSteps(profiles[0], profiles[1])) {
    c.a_ms *= a;
    c.b_ms *= b;
    if (steps.size() < kShown)
      Out("  step {}: {} ms in A, {} ms in B ({:+.1f}% of A's run)\n", c.name, MsText(c.a_ms),
          MsText(c.b_ms), 100 * (c.b_ms - c.a_ms) / comparison.a_ms);
    steps.push_back({{"name", c.name}, {"a_ms", c.a_ms}, {"b_ms", c.b_ms}});
  }
  return steps;
}

Result<json> CompareModels(const Options& o, int threads, Comparison& result) {
  EVOQ_ASSIGN(const Side a, Load(o, o.a, threads));
  EVOQ_ASSIGN(const Side b, Load(o, o.b, threads));
  Runnable* const both[] = {a.executor.get(), b.executor.get()};
  const std::string names[] = {o.a, o.b};
  EVOQ_TRY(MeasureAlike(both, names));
  EVOQ_ASSIGN(const Isa isa, SelectIsa());
  CompareOptions options = o.compare;
  Progress progress("comparing");
  options.progress = [&](double f) { progress.Update(f); };
  EVOQ_ASSIGN(const CompareRuns runs, CompareExecutors(*a.executor, *b.executor, options));
  result = runs.result;
  json out{{"a", BenchJson(o.a, *a.executor, isa, std::span(&runs.a, 1), runs.a, a.load_ms)},
           {"b", BenchJson(o.b, *b.executor, isa, std::span(&runs.b, 1), runs.b, b.load_ms)}};
  TellVerdict(o, result);
  if (result.verdict == Verdict::kSame && o.report.empty()) return out;
  Limits limits;
  if (!o.report.empty()) limits = MeasureLimits(isa, a.executor->threads());
  MeasureOptions measure;
  measure.duration_s = o.compare.duration_s / 4;
  const Runnable* const executors[] = {a.executor.get(), b.executor.get()};
  EVOQ_ASSIGN(auto profiles, MeasureStepsInterleaved(executors, limits, measure));
  if (result.verdict != Verdict::kSame) out["steps"] = TellChangedSteps(profiles, result);
  if (!o.report.empty()) EVOQ_TRY(WriteReport(o, a, b, limits, std::move(profiles), result));
  return out;
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

Result<json> CompareSaved(const Options& o, Comparison& result) {
  EVOQ_ASSIGN(const std::vector<double> a, SavedRuns(o.a));
  EVOQ_ASSIGN(const std::vector<double> b, SavedRuns(o.b));
  result = CompareSamples(a, b, o.compare.least_effect);
  json out{{"a", SavedJson(o.a, a)}, {"b", SavedJson(o.b, b)}};
  TellVerdict(o, result);
  return out;
}

Result<json> Run(const Options& o, const CommonOptions& common) {
  if (IsSaved(o.a) != IsSaved(o.b))
    return Fail(ErrorCode::kUsage,
                "compare two models, or two files of `bench --export-times`, not one of each");
  if (!o.report.empty()) {
    if (IsSaved(o.a))
      return Fail(ErrorCode::kUsage, "--report needs two models: saved times have no steps");
    EVOQ_TRY(CheckOutputPath(o.report));
  }
  Comparison c;
  EVOQ_ASSIGN(json out, IsSaved(o.a) ? CompareSaved(o, c) : CompareModels(o, common.threads, c));
  out.update(ToJson(c));
  const double slower_percent = 100 * (1 / c.speedup - 1);
  if (o.fail_slower < 0 || c.verdict != Verdict::kSlower || slower_percent <= o.fail_slower)
    return out;
  EVOQ_TRY(WriteJson(common.json_path, out));  // a regression's figures are wanted most
  return Fail(ErrorCode::kConditionFailed, "B is {:.1f}% slower than A, at most {:g}% are allowed",
              slower_percent, o.fail_slower);
}

VerbRun Declare(CLI::App& app, const CommonOptions& common) {
  auto o = std::make_shared<Options>();
  app.add_option("a", o->a, "MODEL, or a file of bench --export-times")->required();
  app.add_option("b", o->b, "The other one")->required();
  app.add_option("--batch", o->batch, "Samples per run, where the models leave it free")
      ->check(CLI::PositiveNumber);
  app.add_option("--shape", o->shapes, "Sizes of a free input: NAME=1x3x224x224");
  app.add_option("--input", o->inputs,
                 "Content of an input, where it matters for the time: NAME=F.npy");
  app.add_option("--duration-s", o->compare.duration_s, "Time to measure, for both together")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--warmup-ms", o->compare.warmup_ms, "Time to run before measuring")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--rounds", o->compare.rounds, "Rounds, each with freshly loaded models")
      ->check(CLI::Range(3, 1000))
      ->capture_default_str();
  app.add_option("--report", o->report,
                 "Also write both side by side as one HTML file that opens offline");
  app.add_option("--fail-slower", o->fail_slower,
                 "Exit with 1 when B is slower than A by more than so many percent")
      ->check(CLI::NonNegativeNumber);
  return [o, &common] { return Run(*o, common); };
}

}  // namespace

extern const VerbDef kVerbCompare = {
    "compare", "Says whether B is faster or slower than A, with a confidence interval.",
    "evoq compare mobilenetv2.onnx mobilenetv2.etm --threads 1", Declare};

}  // namespace evoq
