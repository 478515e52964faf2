#include "workflow/tune_loop.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>

#include "base/file.h"
#include "base/ms_text.h"
#include "base/output_file.h"
#include "base/printable.h"
#include "graph/run_choices.h"
#include "models/models.h"
#include "program/etm.h"
#include "workflow/compare.h"
#include "workflow/compile.h"
#include "workflow/models.h"
#include "workflow/tuning.h"

namespace evoq {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr std::array kStrategies = {"latency", "balanced", "throughput"};

// Files of the stages, which go with it.
class StageFolder {
 public:
  StageFolder() {
    std::string path = (fs::temp_directory_path() / "evoq_tune_XXXXXX").string();
    if (::mkdtemp(path.data()) != nullptr) path_ = path;
  }
  ~StageFolder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  StageFolder(const StageFolder&) = delete;
  StageFolder& operator=(const StageFolder&) = delete;
  bool made() const { return !path_.empty(); }
  std::string At(const char* name) const { return (fs::path(path_) / name).string(); }

 private:
  std::string path_;
};

// A share of time: "-23.1%".
std::string Change(const Comparison& c) {
  return fmt::format("{:+.1f}%", 100 * (1 / c.speedup - 1));
}

std::string Verdict(const Comparison& c) {
  return fmt::format("{} to {} ms, {} ({})", MsText(c.a_ms), MsText(c.b_ms), VerdictName(c.verdict),
                     Change(c));
}

// What each stage did, in words: of the page and of the terminal.
json StagesOf(const TunedLoop& t) {
  json stages = json::array();
  const auto add = [&](const char* stage, std::string did, const std::string& speed) {
    stages.push_back({{"stage", stage}, {"did", std::move(did)}, {"speed", speed}});
  };
  add("baseline", fmt::format("{} steps as they are in the model's file", t.steps_before),
      t.graph.a_ms > 0 ? MsText(t.graph.a_ms) + " ms" : "");
  int changes = 0;
  for (const PassRun& run : t.passes) changes += run.changes;
  add("graph",
      fmt::format("{} passes made {} changes: {} steps; arena {:.2f} to {:.2f} MB", t.passes.size(),
                  changes, t.steps_after, static_cast<double>(t.arena_before) / 1e6,
                  static_cast<double>(t.arena_after) / 1e6),
      Verdict(t.graph));
  add("operators",
      fmt::format("{} of {} steps take another way than the default{}", t.tuning.changed,
                  t.tuning.steps,
                  t.tuning.changed == 0 || t.keeps_tuning ? "" : ", which is slower: not kept"),
      t.tuning.changed == 0 ? "" : Verdict(t.operators));
  if (!t.trials.empty()) {
    const ThroughputTrial& best = Best(t.trials);
    add("run time",
        fmt::format("of {} settings the best is batch {}, {} streams of {} threads",
                    t.trials.size(), best.batch, best.setting.streams, best.setting.threads),
        fmt::format("{:.1f} per second, p50 {} ms", best.per_second, MsText(best.p50_ms)));
  }
  add("validation",
      fmt::format("{} samples: every output {}", t.outputs.samples,
                  std::isfinite(t.outputs.sqnr_db)
                      ? fmt::format("keeps {:.1f} dB, signal to noise, of the baseline's",
                                    t.outputs.sqnr_db)
                      : "equals the baseline's"),
      t.whole.a_ms > 0 ? Verdict(t.whole) : "");
  return stages;
}

class Loop {
 public:
  Loop(const TuneLoopJob& job, const Follow& follow) : job_(job), follow_(follow) {}

  Result<TunedLoop> Run() {
    EVOQ_TRY(Check());
    out_.model = job_.model;
    out_.output = job_.output;
    EVOQ_TRY(Baseline());
    EVOQ_TRY(OptimizeGraph());
    EVOQ_TRY(OptimizeOperators());
    EVOQ_TRY(Analyze());
    EVOQ_TRY(OptimizeRunTime());
    EVOQ_TRY(Validate());
    EVOQ_TRY(Write());
    return std::move(out_);
  }

 private:
  Status Check() const {
    if (std::ranges::find(kStrategies, job_.strategy) == kStrategies.end())
      return Fail(ErrorCode::kUsage, "--strategy {}: expected {}", job_.strategy,
                  fmt::join(kStrategies, ", "));
    if (!(job_.duration_s > 0))
      return Fail(ErrorCode::kUsage, "--duration-s {}, expected more than 0", job_.duration_s);
    EVOQ_TRY(CheckEnding(job_.output, /*onnx=*/false));
    EVOQ_TRY(CheckOutput(job_.output, {job_.model}));
    if (!job_.report.empty()) EVOQ_TRY(CheckOutputPath(job_.report));
    if (!folder_.made())
      return Fail(ErrorCode::kIo, "{}: cannot make a folder there",
                  fs::temp_directory_path().string());
    return {};
  }

  // What the passes change is seen beside what compiles without them.
  Status Baseline() {
    CompileJob plain{.model = job_.model, .output = baseline_, .shapes = job_.shapes};
    plain.passes.opt_level = 0;
    plain.threads = job_.threads;
    EVOQ_ASSIGN(const Compiled compiled, Compile(plain, follow_));
    out_.steps_before = compiled.steps;
    return {};
  }

  Status OptimizeGraph() {
    EVOQ_TRY(follow_.At("optimizing the graph", 0));
    EVOQ_ASSIGN(Graph graph, ImportModel(job_.model));
    PassOptions options;
    options.log = [&](const PassDef& pass, int changes, const Graph& now) {
      if (changes > 0) out_.passes.push_back({pass.name, changes, now.order().size()});
    };
    EVOQ_TRY(ChoosePasses(graph, job_.passes));
    EVOQ_TRY(WithContext(RunPasses(graph, Stage::kOptimize, options), job_.model));
    graph.metadata[kStrategyChoice] = job_.strategy;
    EVOQ_ASSIGN(model_, WithContext(LowerAndPack(std::move(graph), job_.shapes), job_.model));
    if (model_.plans.empty())
      return Unsupported(
          "{}: runs in dynamic partitions (docs/dynamic.md), which have no steps to "
          "tune",
          job_.model);
    out_.steps_after = model_.plans[0].decisions.size();
    EVOQ_TRY(WriteEtm(model_, graph_));
    EVOQ_ASSIGN(out_.graph, Beside(baseline_, graph_));
    return {};
  }

  Status OptimizeOperators() {
    Model tuned = model_;
    EVOQ_ASSIGN(out_.tuning, Tune(tuned, job_.threads, job_.shapes, follow_));
    EVOQ_TRY(WriteEtm(tuned, tuned_));
    if (out_.tuning.changed == 0) return {};
    EVOQ_ASSIGN(out_.operators, Beside(graph_, tuned_));
    out_.keeps_tuning = out_.operators.verdict != Verdict::kSlower;
    if (out_.keeps_tuning) model_ = std::move(tuned);
    return {};
  }

  // Where the time of the optimized model goes, and what its deployment lacks.
  Status Analyze() {
    WhatToMeasure what;
    what.shapes = job_.shapes;
    EVOQ_ASSIGN(const ModelToMeasure before, LoadToMeasure(baseline_, job_.threads, what));
    EVOQ_ASSIGN(const auto plain, before.engine->At(before.shapes));
    out_.arena_before = plain->arena_bytes();
    EVOQ_ASSIGN(kept_, LoadToMeasure(Kept(), job_.threads, what));
    EVOQ_ASSIGN(const auto executor, kept_.engine->At(kept_.shapes));
    out_.arena_after = executor->arena_bytes();
    MeasureOptions measure;
    measure.duration_s = job_.duration_s / 8;
    measure.progress = follow_.Stage("measuring steps");
    EVOQ_ASSIGN(const Isa isa, SelectIsa());
    const Limits limits = MeasureLimits(isa, executor->threads());
    RunBuffers buffers = MakeBuffers(*executor);
    EVOQ_ASSIGN(StepProfile profile, MeasureSteps(*executor, buffers, limits, measure));
    out_.slowest = std::move(profile.steps);
    std::ranges::stable_sort(out_.slowest, std::ranges::greater(), &StepTime::ms);
    out_.slowest.resize(std::min<size_t>(out_.slowest.size(), 5));
    return {};
  }

  Status OptimizeRunTime() {
    if (job_.strategy != "throughput") return {};
    ThroughputJob search;
    search.model = Kept();
    search.what.shapes = job_.shapes;
    search.cores = job_.threads;
    search.each_s = std::min(0.3, job_.duration_s / 20);
    search.progress = follow_.Stage("looking for batch, streams and threads");
    EVOQ_ASSIGN(out_.trials, TryThroughput(search));
    model_.graph.metadata[kStreamsChoice] = std::to_string(Best(out_.trials).setting.streams);
    return {};
  }

  Status Validate() {
    DiffJob diff{.a = baseline_, .b = Kept(), .probe = job_.probe, .threads = job_.threads};
    const ProbeOptions& probe = job_.probe;
    const bool given =
        !probe.data.empty() || probe.random > 0 || !probe.text.empty() || !probe.samples.empty();
    if (!given) {
      diff.probe.random = 4;
      diff.probe.shapes = job_.shapes;
    }
    EVOQ_ASSIGN(out_.outputs, Diff(diff, follow_));
    EVOQ_ASSIGN(const auto executor, kept_.engine->At(kept_.shapes));
    out_.advice = AdviceOn(*executor);
    EVOQ_TRY(WithContext(CheckKept(out_.outputs, job_.min_sqnr_db, std::nullopt), job_.model));
    CompareJob compare{.a = baseline_, .b = Kept(), .report = job_.report, .shapes = job_.shapes};
    compare.threads = job_.threads;
    compare.duration_s = job_.duration_s / 2;
    compare.page = [&](const Comparison& whole) -> json {
      out_.whole = whole;
      return {{"stages", StagesOf(out_)}};
    };
    compare.names = {job_.model + ", as it is", job_.output};
    EVOQ_ASSIGN(const Compared compared, Compare(compare, follow_));
    out_.whole = compared.result;
    out_.report = compared.report;
    return {};
  }

  std::vector<Advice> AdviceOn(const Executor& executor) const {
    Deployed deployed{.model = &kept_.engine->model(), .executor = &executor};
    deployed.sqnr_db = out_.outputs.sqnr_db;
    deployed.baseline_arena = static_cast<double>(out_.arena_before);
    double one = 0, several = 0;
    for (const ThroughputTrial& trial : out_.trials) {
      double& best = trial.setting.streams == 1 ? one : several;
      best = std::max(best, trial.per_second);
      if (trial.setting.streams > 1) deployed.streams = trial.setting.streams;
    }
    if (several > 0 && one > 0) deployed.streams_speedup = several / one;
    return Advise(deployed);
  }

  Status Write() { return WriteEtm(model_, job_.output); }

  Result<Comparison> Beside(const std::string& a, const std::string& b) {
    CompareJob compare{.a = a, .b = b, .shapes = job_.shapes};
    compare.threads = job_.threads;
    compare.duration_s = job_.duration_s / 6;
    compare.rounds = 5;
    EVOQ_ASSIGN(const Compared compared, Compare(compare, follow_));
    return compared.result;
  }
  const std::string& Kept() const { return out_.keeps_tuning ? tuned_ : graph_; }

  const TuneLoopJob& job_;
  const Follow& follow_;
  StageFolder folder_;
  const std::string baseline_ = folder_.At("baseline.etm"), graph_ = folder_.At("graph.etm"),
                    tuned_ = folder_.At("tuned.etm");
  Model model_;          // what is written
  ModelToMeasure kept_;  // the same, loaded
  TunedLoop out_;
};

}  // namespace

Result<TunedLoop> TuneLoop(const TuneLoopJob& job, const Follow& follow) {
  return Loop(job, follow).Run();
}

Told Tell(const TunedLoop& t) {
  Told told;
  told.text = FormatPrintable("{} -> {}\n", t.model, t.output);
  const json stages = StagesOf(t);
  for (const json& stage : stages) {
    told.text += fmt::format("  {:<10}  {}\n", stage["stage"].get<std::string>(),
                             stage["did"].get<std::string>());
    if (stage["speed"] != "")
      told.text += fmt::format("              {}\n", stage["speed"].get<std::string>());
  }
  told.text += "  where the time goes now\n";
  json slowest = json::array(), trials = json::array(), passes = json::array();
  for (const StepTime& step : t.slowest) {
    told.text += FormatPrintable("    {:<24} {:<12} {:>8} ms {:5.1f}%  {:3.0f}% of the roofline\n",
                                 step.name, step.op, MsText(step.ms), 100 * step.share,
                                 100 * step.roofline_share);
    slowest.push_back({{"name", step.name},
                       {"op", step.op},
                       {"kernel", step.kernel},
                       {"ms", step.ms},
                       {"share", step.share},
                       {"roofline_share", step.roofline_share}});
  }
  const Told advice = Tell(t.advice);
  told.text += advice.text;
  for (const ThroughputTrial& trial : t.trials)
    trials.push_back({{"batch", trial.batch},
                      {"streams", trial.setting.streams},
                      {"threads", trial.setting.threads},
                      {"per_second", trial.per_second},
                      {"p50_ms", trial.p50_ms}});
  for (const PassRun& run : t.passes)
    passes.push_back({{"pass", run.pass}, {"changes", run.changes}, {"nodes", run.nodes}});
  if (!t.report.empty()) told.text += FormatPrintable("  wrote {}\n", t.report);
  told.json = {{"output", t.output},
               {"stages", stages},
               {"steps_before", t.steps_before},
               {"steps_after", t.steps_after},
               {"arena_before", t.arena_before},
               {"arena_after", t.arena_after},
               {"passes", passes},
               {"graph", ToJson(t.graph)},
               {"operators", t.tuning.changed == 0 ? json() : ToJson(t.operators)},
               {"tuning_kept", t.keeps_tuning},
               {"trials", trials},
               {"slowest", slowest},
               {"advice", advice.json},
               {"compare", ToJson(t.whole)},
               {"sqnr_db", std::isfinite(t.outputs.sqnr_db) ? json(t.outputs.sqnr_db) : json()},
               {"samples", t.outputs.samples}};
  return told;
}

}  // namespace evoq
