#include "base/file.h"
#include "base/stopwatch.h"
#include "cli/adaptive_options.h"
#include "cli/common.h"
#include "cli/verb.h"
#include "foreign/profiles/trtexec_export.h"
#include "graph/run_choices.h"
#include "models/models.h"
#include "program/etm.h"
#include "workflow/adaptive.h"
#include "workflow/adaptive_cost.h"
#include "workflow/advice.h"
#include "workflow/bench_json.h"
#include "workflow/deployment.h"
#include "workflow/language_speed.h"
#include "workflow/size_runs.h"
#include "workflow/stream_priorities.h"
#include "workflow/streams.h"
#include "workflow/throughput.h"
#include "workflow/to_measure.h"
#include "workflow/tuning.h"

namespace evoq {
namespace {

using nlohmann::json;

struct Options {
  std::string model;
  int batch = 0, streams = 0;  // streams 0: one, or whatever --hint finds
  int64_t iterations = 0;      // 0: 10 runs, of a language model's phases 3
  std::vector<std::string> shapes, inputs;
  std::string observed;
  std::vector<double> percentiles;
  double warmup_ms = 200, duration_s = 3;
  std::string export_times, export_profile, export_layer_info, verbosity = "layer_names_only";
  bool dump_profile = false, dump_layer_info = false;
  TuneChoice tune;
  std::string hint;             // "": what the model's file says
  std::vector<int> priorities;  // of the streams; empty: what the model's file says
  PhaseLists phases;
  int64_t decode_tokens = 32;
  std::string kv_cache;
  AdaptiveChoice adaptive;
};

Status WriteJson(const std::string& path, const json& value) {
  if (path.empty()) return {};
  return WriteFileAtomic(path, value.dump(1, ' ', false, json::error_handler_t::replace) + "\n");
}

// What trtexec tells of the engine besides the runs; steps are timed after them, in runs of their
// own.
Status TellLikeTrtexec(const Options& o, Runnable& executor, const RunTimes& times) {
  EVOQ_TRY(WriteJson(o.export_times, TimesAsTrtexec(times)));
  if (o.verbosity != "none") {
    const json layers = LayersAsTrtexec(executor.program(), o.verbosity == "detailed");
    EVOQ_TRY(WriteJson(o.export_layer_info, layers));
    if (o.dump_layer_info)
      Out("{}\n", Lines{layers.dump(1, ' ', false, json::error_handler_t::replace)});
  }
  if (o.export_profile.empty() && !o.dump_profile) return {};
  RunBuffers buffers = MakeBuffers(executor);
  MeasureOptions options;
  options.warmup_ms = o.warmup_ms / 4;
  options.duration_s = o.duration_s / 2;
  options.min_runs = o.iterations > 0 ? o.iterations : 10;
  EVOQ_ASSIGN(const StepProfile profile, MeasureSteps(executor, buffers, Limits(), options));
  EVOQ_TRY(WriteJson(o.export_profile, ProfileAsTrtexec(profile)));
  if (o.dump_profile) Out("{}", Lines{ProfileText(profile)});
  return {};
}

// What makes the figures say less than they seem to.
void Warn(const RunTimes& times, double first_ms, double load_ms) {
  if (times.variation() > 0.1)
    Log("warning: the runs vary by {:.0f}% (standard deviation over mean): the machine is busy or "
        "its clock is unstable; quote the median",
        100 * times.variation());
  if (first_ms > 10 * times.median())
    Log("warning: the first run took {:.2f} ms, {:.0f} times the median: a process that runs once "
        "sees that, not the median",
        first_ms, first_ms / times.median());
  if (load_ms > 1000 * times.median())
    Log("warning: loading took {:.0f} ms, as long as {:.0f} runs", load_ms,
        load_ms / times.median());
}

MeasureOptions MeasureAs(const Options& o, DisturbanceMeter* meter) {
  MeasureOptions options;
  options.meter = meter;
  options.warmup_ms = o.warmup_ms;
  options.duration_s = o.duration_s;
  options.min_runs = o.iterations > 0 ? o.iterations : 10;
  return options;
}

void Tell(const Options& o, json& out, const RunTimes& times, const Disturbance& disturbance,
          double first_ms) {
  out["disturbance"] = ToJson(disturbance);
  Out("{}: {} on {}, {} thread{}, batch {}, {} stream{}\n", o.model, out["isa"].get<std::string>(),
      CpuName(), out["threads"].get<int>(), out["threads"] == 1 ? "" : "s",
      out["batch"].get<int64_t>(), out["streams"].get<int>(), out["streams"] == 1 ? "" : "s");
  Out("  latency  p50 {:.3f} ms  mean {:.3f}  min {:.3f}  p90 {:.3f}  p95 {:.3f}  p99 {:.3f}  ({} "
      "runs)\n",
      times.median(), times.mean(), times.min(), times.Percentile(90), times.Percentile(95),
      times.Percentile(99), times.runs());
  for (double p : o.percentiles) Out("  p{} {:.3f} ms\n", p, times.Percentile(p));
  Out("  throughput {:.1f} per second; load {:.1f} ms, of it {:.1f} ms to prepare these shapes; "
      "arena {:.2f} MB ({:.2f} MB of values), weights {:.2f} MB\n",
      out["per_second"].get<double>(), out["load_ms"].get<double>(),
      out["prepare_ms"].get<double>(), out["arena_bytes"].get<double>() / 1e6,
      out["value_bytes"].get<double>() / 1e6, out["weight_bytes"].get<double>() / 1e6);
  if (const std::string disturbed = ToText(disturbance); !disturbed.empty())
    Out("  disturbed: {}\n", disturbed);
  Warn(times, first_ms, out["load_ms"].get<double>());
}

json ToJson(const ThroughputTrial& trial) {
  return {{"batch", trial.batch},
          {"streams", trial.setting.streams},
          {"threads", trial.setting.threads},
          {"per_second", trial.per_second},
          {"p50_ms", trial.p50_ms}};
}

// What --hint throughput tried, with the setting to measure.
struct Hinted {
  ThroughputSetting setting;
  json trials;
};
Result<Hinted> FindSetting(const Options& o, const WhatToMeasure& what,
                           const CommonOptions& common) {
  ThroughputJob job = {o.model, what, common.threads, o.streams, std::min(0.3, o.duration_s)};
  job.progress = common.follow.Stage("trying settings");
  EVOQ_ASSIGN(const std::vector<ThroughputTrial> trials, TryThroughput(job));
  const ThroughputTrial& best = Best(trials);
  Hinted hinted = {best.setting, json::array()};
  Out("  batch  streams  threads each  per second   p50 ms\n");
  for (const ThroughputTrial& t : trials) {
    hinted.trials.push_back(ToJson(t));
    Out("  {:5}  {:7}  {:12}  {:10.1f}  {:7.3f}{}\n", t.batch, t.setting.streams, t.setting.threads,
        t.per_second, t.p50_ms, &t == &best ? "  <" : "");
  }
  return hinted;
}

// The table of a language model's phases.
Result<json> RunPhases(const Options& o, std::unique_ptr<Engine> engine, double load_ms,
                       const CommonOptions& common) {
  const std::pair<const char*, bool> single[] = {
      {"--streams", o.streams > 0},
      {"--hint", o.hint == "throughput"},
      {"--tune", o.tune.measure()},
      {"--percentile", !o.percentiles.empty()},
      {"--export-times", !o.export_times.empty()},
      {"--export-profile", !o.export_profile.empty() || o.dump_profile},
      {"--export-layer-info", !o.export_layer_info.empty() || o.dump_layer_info}};
  for (const auto& [option, given] : single) {
    if (given)
      return Fail(ErrorCode::kUsage, "{}: of a language model, one run at a time: name its --phase",
                  option);
  }
  LanguageBenchJob job{.model = o.model,
                       .kv_cache = o.kv_cache,
                       .prompt_length = o.phases.prompt_length,
                       .contexts = o.phases.contexts,
                       .decode_tokens = o.decode_tokens,
                       .warmup_ms = o.warmup_ms,
                       .duration_s = o.duration_s,
                       .iterations = o.iterations > 0 ? o.iterations : 3};
  if (!o.phases.sequences.empty()) job.sequences = o.phases.sequences;
  EVOQ_ASSIGN(const LanguageBench bench,
              BenchLanguage(std::move(engine), load_ms, job, common.follow));
  return Print(Tell(bench));
}

// Of an adaptive model: what was observed in the runs, and what that cost.
Status TellAdaptive(const Options& o, const WhatToMeasure& what, const ModelToMeasure& m,
                    FirstRun& ready, const CommonOptions& common, json& out) {
  out["adaptive"] = Print(Tell(*m.engine->adaptive()));
  EVOQ_ASSIGN(const std::shared_ptr<Executor> adaptive, m.engine->At(m.shapes));
  EVOQ_ASSIGN(auto loaded,
              LoadEngine(o.model, {m.engine->threads(), what.shapes, o.tune.stored()}));
  EVOQ_ASSIGN(const ModelToMeasure plain, ToMeasure(std::move(loaded), what));
  EVOQ_ASSIGN(FirstRun without, RunFirst(plain));
  MeasureOptions options = MeasureAs(o, nullptr);
  options.progress = common.follow.Stage("measuring the overhead");
  EVOQ_ASSIGN(const AdaptiveCost cost, MeasureAdaptiveCost(*without.runnable, without.buffers,
                                                           *adaptive, ready.buffers, options));
  out["adaptive"]["cost"] = Print(Tell(cost));
  return {};
}

// How many streams there are and how urgent each is: by the options, else by the model's file.
// Errors: kUsage where the options contradict each other.
Status SettleStreams(const StreamChoice& chosen, Options& o) {
  const int given = static_cast<int>(o.priorities.size());
  if (given == 1 || (given > 0 && o.streams > 0 && o.streams != given))
    return Fail(ErrorCode::kUsage, "--stream-priority: {} numbers, expected one for each of {}",
                given, o.streams > 0 ? fmt::format("{} streams", o.streams) : "several streams");
  if (given == 0 && o.streams == 0) o.priorities = chosen.priorities;
  if (o.streams == 0) o.streams = given > 0 ? given : chosen.streams;
  if (static_cast<int>(o.priorities.size()) != o.streams || o.streams < 2) o.priorities.clear();
  return {};
}

Result<json> Run(Options o, const CommonOptions& common) {
  if (!o.observed.empty()) {
    SizeRunsJob job{.model = o.model, .file = o.observed, .threads = common.threads};
    if (o.iterations > 0) job.runs = o.iterations;
    EVOQ_ASSIGN(const SizeRuns runs, RunSizes(job, common.follow));
    return Print(Tell(runs));
  }
  EVOQ_ASSIGN(const InputShapes named, ParseShapes(o.shapes));
  EVOQ_ASSIGN(const InputFiles files, ParseInputs(o.inputs));
  EVOQ_ASSIGN(const PhaseChoice phase, o.phases.One());
  WhatToMeasure what = {named, files, o.batch, o.tune.stored(), phase};
  EVOQ_TRY(CheckThreads(common.threads));
  EVOQ_TRY(CheckSizes(named));
  Stopwatch watch;
  const std::optional<AdaptiveOptions> adaptive = o.adaptive.chosen();
  if (adaptive && o.hint == "throughput")
    return Fail(ErrorCode::kUsage,
                "--adaptive, --scale-set: one stream follows its input, --hint throughput tries "
                "several");
  EVOQ_ASSIGN(auto loaded, LoadEngine(o.model, {common.threads, named, o.tune.stored(), adaptive}));
  const bool all_phases = !what.says_inputs() && phase.name.empty();
  if (all_phases && FindCacheInputs(loaded->model().graph))
    return RunPhases(o, std::move(loaded), watch.ms(), common);
  if (!o.kv_cache.empty())
    return Fail(ErrorCode::kUsage,
                "--kv-cache: for one run of {} compile it with --kv-cache {} first", o.model,
                o.kv_cache);
  EVOQ_ASSIGN(const StreamChoice chosen, ChosenStreams(loaded->model().graph));
  EVOQ_TRY(SettleStreams(chosen, o));
  if (o.hint.empty() && !adaptive) o.hint = ChoiceOf(loaded->model().graph, kStrategyChoice);
  Hinted hinted = {{o.batch, std::max(o.streams, 1), common.threads}, nullptr};
  if (o.hint == "throughput") {
    loaded.reset();
    EVOQ_ASSIGN(hinted, FindSetting(o, what, common));
    watch = Stopwatch();
    EVOQ_ASSIGN(loaded, LoadEngine(o.model, {hinted.setting.threads, named, o.tune.stored()}));
  }
  const int streams = hinted.setting.streams;
  what.batch = hinted.setting.batch;
  EVOQ_ASSIGN(const ModelToMeasure m, ToMeasure(std::move(loaded), what));
  Engine& engine = *m.engine;
  const double read_ms = watch.ms();
  EVOQ_TRY(CheckStreams(m, o.model, streams));
  json tuned;
  if (o.tune.measure()) {
    EVOQ_ASSIGN(const TuneReport report, TuneToMeasure(m, o.model));
    tuned = Print(Tell(report));
  }
  EVOQ_ASSIGN(FirstRun ready, RunFirst(m));
  Runnable& runnable = *ready.runnable;
  DisturbanceMeter meter(ThisMachine());
  // Several streams would tell it of their runs at once.
  MeasureOptions options = MeasureAs(o, streams == 1 ? &meter : nullptr);
  if (streams == 1) options.progress = common.follow.Stage("measuring");
  EVOQ_ASSIGN(const StreamTimes times, MeasureStreams(runnable, ready.buffers, streams, options));
  const Disturbance disturbance = meter.Read();
  const RunTimes all = times.all();
  json out =
      BenchJson(o.model, runnable, engine.isa(), times.streams, all, read_ms + ready.ready_ms);
  if (!hinted.trials.is_null()) out["trials"] = hinted.trials;
  out["first_ms"] = ready.first_ms;
  out["prepare_ms"] = engine.prepared().ms;
  out["live_bytes"] = runnable.program().live_bytes;
  out["value_bytes"] = runnable.program().value_bytes;
  if (m.in_partitions) {
    out["stages"] = engine.prepared().count;
    out["regions"] = engine.in_regions();
  }
  if (!tuned.is_null()) out["tuning"] = tuned;
  for (double p : o.percentiles) out["percentiles"][fmt::format("{}", p)] = all.Percentile(p);
  Tell(o, out, all, disturbance, ready.first_ms - (m.in_partitions ? ready.ready_ms : 0));
  if (m.in_partitions) Out("  in dynamic partitions: {}\n", engine.in_regions());
  EVOQ_TRY(TellLikeTrtexec(o, runnable, all));
  if (!m.in_partitions && IsEtmFile(o.model)) {
    const Deployed deployed = {.model = &engine.model(),
                               .executor = static_cast<const Executor*>(&runnable),
                               .prepare_ms = engine.prepared().ms};
    out["advice"] = Print(Tell(Advise(deployed)));
  }
  if (adaptive) EVOQ_TRY(TellAdaptive(o, what, m, ready, common, out));
  if (!o.priorities.empty()) {
    const PriorityJob job = {o.priorities, chosen.share_arenas, hinted.setting.threads,
                             o.duration_s};
    EVOQ_ASSIGN(const StreamPriorities measured, MeasurePriorities(o.model, what, job));
    out["priorities"] = Print(Tell(measured));
  }
  return out;
}

VerbRun Declare(const VerbOptions& options, const CommonOptions& common) {
  auto o = std::make_shared<Options>();
  options.Add("model", o->model, "MODEL.onnx or MODEL.etm, or a language model").Required();
  options.Add("--batch", o->batch, "Samples per run, where the model leaves it free").Positive();
  options.Add("--shape", o->shapes, "Sizes of a free input: NAME=1x3x224x224");
  options.Add("--input", o->inputs,
              "Content of an input, where it matters for the time: NAME=F.npy");
  options.Add(
      "--observed", o->observed,
      "Run these sizes instead, in an order drawn from them (lines of `RUNS NAME=1x128`, or "
      "what a session saved): what the file's gears serve, and what a miss costs");
  options
      .Add("--streams,--infStreams", o->streams,
           "Concurrent streams, each with --threads threads (default: what the model's file says, "
           "else 1)")
      .InRange(1, 256);
  options
      .Add("--stream-priority", o->priorities,
           "Of each stream, smaller numbers go first: also measure what the most urgent one feels "
           "of the others (default: what the model's file says)")
      .SplitAt(',')
      .InRange(-1000, 1000);
  options
      .Add("--hint", o->hint,
           "throughput: measure which batch, streams and threads (--threads in all, default all "
           "cores) process the most samples per second; --batch and --streams stay as given. "
           "latency, none: one stream on all threads, the default where the model's file names no "
           "optimization_strategy (docs/ascend.md)")
      .OneOf({"none", "latency", "throughput"});
  AddPhaseOptions(options, o->phases);
  AddCacheType(options, o->kv_cache);
  options
      .Add("-n,--decode-tokens,--n-gen", o->decode_tokens,
           "Of a language model: tokens that follow a context before it is taken up again")
      .Positive()
      .ShowDefault();
  AddAdaptiveOptions(options, o->adaptive);
  AddTuneOptions(options, o->tune, "ignore what is stored in the .etm");
  options.Add("--warmup-ms,--warmUp", o->warmup_ms, "Time to run before measuring")
      .NonNegative()
      .ShowDefault();
  options.Add("--duration-s,--duration", o->duration_s, "Time to measure")
      .NonNegative()
      .ShowDefault();
  options
      .Add("--iterations", o->iterations,
           "Runs to measure at least (default: 10; of a language model's phases 3; of --observed "
           "1000 in all)")
      .Positive();
  options.Add("--percentile", o->percentiles, "Also print these percentiles")
      .SplitAt(',')
      .InRange(0.0, 100.0);
  options.Add("--export-times,--exportTimes", o->export_times,
              "Write each run's times as trtexec does (one stream)");
  options.Add("--export-profile,--exportProfile", o->export_profile,
              "Write the steps' times as trtexec does");
  options.Add("--export-layer-info,--exportLayerInfo", o->export_layer_info,
              "Write the steps as trtexec writes its layers");
  options.AddFlag("--dump-profile,--dumpProfile", o->dump_profile, "Print the steps' times");
  options.AddFlag("--dump-layer-info,--dumpLayerInfo", o->dump_layer_info, "Print the steps");
  options
      .Add("--profiling-verbosity,--profilingVerbosity", o->verbosity, "What the layer info tells")
      .OneOf({"layer_names_only", "detailed", "none"})
      .ShowDefault();
  options.AddFlag("--separate-profile-run,--separateProfileRun",
                  "Steps are always timed in runs of their own: accepted, changes nothing");
  options.AddFlag("--spin-wait,--useSpinWait",
                  "Waiting threads always spin briefly, then sleep: accepted, changes nothing");
  return [o, &common] { return Run(*o, common); };
}

}  // namespace

extern const VerbDef kVerbBench = {
    .name = "bench",
    .doc =
        "Measures latency, throughput, load time and memory; of language models tokens per second.",
    .example = "evoq bench mobilenetv2.etm --threads 1",
    .declare = Declare,
};

}  // namespace evoq
