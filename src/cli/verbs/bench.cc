#include "base/file.h"
#include "base/threads.h"
#include "cli/common.h"
#include "cli/verb.h"
#include "foreign/profiles/trtexec_export.h"
#include "workflow/bench_json.h"
#include "workflow/measure_regions.h"
#include "workflow/tuning.h"

namespace evoq {
namespace {

using nlohmann::json;

struct Options {
  std::string model;
  int batch = 0, streams = 1;
  int64_t iterations = 10;
  std::vector<std::string> shapes, inputs;
  std::vector<double> percentiles;
  double warmup_ms = 200, duration_s = 3;
  std::string export_times, export_profile, export_layer_info, verbosity = "layer_names_only";
  bool dump_profile = false, dump_layer_info = false;
  TuneChoice tune;
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
  options.min_runs = o.iterations;
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

// Runs every stream on a thread of its own, each with an executor, buffers and threads of its own;
// the first one on the caller's.
Result<std::vector<RunTimes>> RunStreams(const std::vector<Runnable*>& executors,
                                         std::vector<RunBuffers>& buffers,
                                         const MeasureOptions& options) {
  if (executors.size() == 1) return MeasureInterleaved(executors, buffers, options);
  std::vector<Result<RunTimes>> results(executors.size(),
                                        tl::unexpected(Error(ErrorCode::kInternal, "not run")));
  RunOnThreads(static_cast<int>(executors.size()),
               [&](int i) { results[i] = MeasureRuns(*executors[i], buffers[i], options); });
  std::vector<RunTimes> times;
  for (auto& r : results) {
    if (!r) return tl::unexpected(std::move(r.error()));
    times.push_back(std::move(*r));
  }
  return times;
}

MeasureOptions MeasureAs(const Options& o, DisturbanceMeter* meter) {
  MeasureOptions options;
  options.meter = meter;
  options.warmup_ms = o.warmup_ms;
  options.duration_s = o.duration_s;
  options.min_runs = o.iterations;
  return options;
}

void Tell(const Options& o, json& out, const RunTimes& times, const Disturbance& disturbance,
          double first_ms) {
  out["disturbance"] = ToJson(disturbance);
  Out("{}: {} on {}, {} thread{}, batch {}, {} stream{}\n", o.model, out["isa"].get<std::string>(),
      CpuName(), out["threads"].get<int>(), out["threads"] == 1 ? "" : "s",
      out["batch"].get<int64_t>(), o.streams, o.streams == 1 ? "" : "s");
  Out("  latency  p50 {:.3f} ms  mean {:.3f}  min {:.3f}  p90 {:.3f}  p95 {:.3f}  p99 {:.3f}  ({} "
      "runs)\n",
      times.median(), times.mean(), times.min(), times.Percentile(90), times.Percentile(95),
      times.Percentile(99), times.runs());
  for (double p : o.percentiles) Out("  p{} {:.3f} ms\n", p, times.Percentile(p));
  Out("  throughput {:.1f} per second; load {:.1f} ms, of it {:.1f} ms to prepare these shapes; "
      "arena {:.2f} MB, weights {:.2f} MB\n",
      out["per_second"].get<double>(), out["load_ms"].get<double>(),
      out["prepare_ms"].get<double>(), out["arena_bytes"].get<double>() / 1e6,
      out["weight_bytes"].get<double>() / 1e6);
  if (const std::string disturbed = ToText(disturbance); !disturbed.empty())
    Out("  disturbed: {}\n", disturbed);
  Warn(times, first_ms, out["load_ms"].get<double>());
}

// Executors of the streams after the first one, and their buffers.
Result<std::vector<std::unique_ptr<Runnable>>> MoreStreams(const Options& o, const Runnable& first,
                                                           std::vector<RunBuffers>& buffers) {
  std::vector<std::unique_ptr<Runnable>> more;
  for (int s = 1; s < o.streams; ++s) {
    EVOQ_ASSIGN(auto extra, first.Fresh());
    buffers.push_back(MakeBuffers(*extra, static_cast<uint32_t>(s + 1)));
    more.push_back(std::move(extra));
  }
  return more;
}

// The runs of all streams together.
RunTimes Together(const std::vector<RunTimes>& streams) {
  RunTimes all;
  if (streams.size() == 1) all.spans = streams[0].spans;
  for (const RunTimes& t : streams)
    all.sorted_ms.insert(all.sorted_ms.end(), t.sorted_ms.begin(), t.sorted_ms.end());
  std::sort(all.sorted_ms.begin(), all.sorted_ms.end());
  return all;
}

Result<json> Run(const Options& o, const CommonOptions& common) {
  const Stopwatch watch;
  EVOQ_ASSIGN(const InputShapes named, ParseShapes(o.shapes));
  EVOQ_ASSIGN(const InputFiles files, ParseInputs(o.inputs));
  EVOQ_ASSIGN(const ModelToMeasure m,
              LoadToMeasure(o.model, common.threads, {named, files, o.batch, o.tune.stored()}));
  Engine& engine = *m.engine;
  const double read_ms = watch.ms();
  if (m.in_regions && o.streams > 1)
    return Fail(ErrorCode::kUsage,
                "--streams {}: {} runs in dynamic partitions, one stream at a time ({})", o.streams,
                o.model, engine.in_regions());
  json tuned;
  if (o.tune.measure()) {
    EVOQ_ASSIGN(const TuneReport report, TuneToMeasure(m, o.model));
    tuned = Print(Tell(report));
  }
  EVOQ_ASSIGN(FirstRun ready, RunFirst(m));
  Runnable& runnable = *ready.runnable;
  std::vector<RunBuffers> buffers;
  buffers.push_back(std::move(ready.buffers));
  EVOQ_ASSIGN(const auto more, MoreStreams(o, runnable, buffers));
  std::vector<Runnable*> executors = {&runnable};
  for (const auto& extra : more) executors.push_back(extra.get());
  DisturbanceMeter meter(ThisMachine());
  // Several streams would tell it of their runs at once.
  MeasureOptions options = MeasureAs(o, o.streams == 1 ? &meter : nullptr);
  if (o.streams == 1) options.progress = common.follow.Stage("measuring");
  EVOQ_ASSIGN(const std::vector<RunTimes> streams, RunStreams(executors, buffers, options));
  const Disturbance disturbance = meter.Read();
  const RunTimes all = Together(streams);
  json out = BenchJson(o.model, runnable, engine.isa(), streams, all, read_ms + ready.ready_ms);
  out["first_ms"] = ready.first_ms;
  out["prepare_ms"] = engine.prepared().ms;
  out["live_bytes"] = runnable.program().live_bytes;
  if (m.in_regions) {
    out["stages"] = engine.prepared().count;
    out["regions"] = engine.in_regions();
  }
  if (!tuned.is_null()) out["tuning"] = tuned;
  for (double p : o.percentiles) out["percentiles"][fmt::format("{}", p)] = all.Percentile(p);
  Tell(o, out, all, disturbance, ready.first_ms - (m.in_regions ? ready.ready_ms : 0));
  if (m.in_regions) Out("  in dynamic partitions: {}\n", engine.in_regions());
  EVOQ_TRY(TellLikeTrtexec(o, runnable, all));
  return out;
}

VerbRun Declare(const VerbOptions& options, const CommonOptions& common) {
  auto o = std::make_shared<Options>();
  options.Add("model", o->model, "MODEL.onnx or MODEL.etm").Required();
  options.Add("--batch", o->batch, "Samples per run, where the model leaves it free").Positive();
  options.Add("--shape", o->shapes, "Sizes of a free input: NAME=1x3x224x224");
  options.Add("--input", o->inputs,
              "Content of an input, where it matters for the time: NAME=F.npy");
  options
      .Add("--streams,--infStreams", o->streams, "Concurrent streams, each with --threads threads")
      .InRange(1, 256)
      .ShowDefault();
  AddTuneOptions(options, o->tune, "ignore what is stored in the .etm");
  options.Add("--warmup-ms,--warmUp", o->warmup_ms, "Time to run before measuring").ShowDefault();
  options.Add("--duration-s,--duration", o->duration_s, "Time to measure").ShowDefault();
  options.Add("--iterations", o->iterations, "Runs to measure at least").Positive().ShowDefault();
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
    .doc = "Measures latency, throughput, load time and memory.",
    .example = "evoq bench mobilenetv2.etm --threads 1",
    .declare = Declare,
};

}  // namespace evoq
