#include <algorithm>

#include "base/file.h"
#include "cli/common.h"
#include "cli/verb.h"
#include "report/ledger.h"
#include "workflow/bench_json.h"
#include "workflow/to_measure.h"
#include "workflow/tuning.h"

namespace evoq {
namespace {

using nlohmann::json;

struct Options {
  std::string model, trace, layer_info;
  std::vector<std::string> shapes, inputs;
  int batch = 0;
  double warmup_ms = 200, duration_s = 2;
  bool sort = false;
  TuneChoice tune;
  PhaseChoice phase;
};

json Span(const std::string& name, const std::string& category, int row, double start_ms, double ms,
          json args = json::object()) {
  return {{"name", name}, {"cat", category},      {"ph", "X"},       {"pid", 1},
          {"tid", row},   {"ts", start_ms * 1e3}, {"dur", ms * 1e3}, {"args", std::move(args)}};
}

// The first measured runs as a Chrome trace (chrome://tracing, Perfetto), as they happened: on one
// row the runs, without and with step timing in turn; on the other the steps of the latter. What a
// run takes outside its steps is drawn before them.
json TraceOf(const StepProfile& profile) {
  json events = json::array();
  const auto name_row = [&](int row, const char* name) {
    events.push_back({{"name", "thread_name"},
                      {"ph", "M"},
                      {"pid", 1},
                      {"tid", row},
                      {"args", {{"name", name}}}});
  };
  name_row(0, "runs");
  name_row(1, "steps");
  for (const RecordedRun& run : profile.recorded) {
    const bool timed = !run.steps_ms.empty();
    events.push_back(Span(timed ? "run, steps timed" : "run", "run", 0, run.start_ms, run.ms));
    if (!timed) continue;
    double host_ms = run.ms;
    for (double ms : run.steps_ms) host_ms -= ms;
    host_ms = std::max(host_ms, 0.0);
    events.push_back(Span("host", "host", 1, run.start_ms, host_ms));
    double at_ms = run.start_ms + host_ms;
    for (size_t i = 0; i < run.steps_ms.size(); ++i) {
      const StepTime& s = profile.steps[i];
      events.push_back(Span(
          s.name, s.op, 1, at_ms, run.steps_ms[i],
          {{"kernel", s.kernel}, {"precision", PrecisionName(s.precision)}, {"shape", s.shape}}));
      at_ms += run.steps_ms[i];
    }
  }
  return {{"traceEvents", events}, {"displayTimeUnit", "ns"}};
}

Status WriteTrace(const Options& o, const StepProfile& profile) {
  if (o.trace.empty()) return {};
  return WriteFileAtomic(
      o.trace, TraceOf(profile).dump(1, ' ', false, json::error_handler_t::replace) + "\n");
}

// What makes the figures say less than they seem to. `first_ms`: what the first run took.
void Warn(const StepProfile& profile, double first_ms) {
  if (profile.busy > 0.1)
    Log("warning: half of the time a run took {:.0f}% longer than in the calm blocks that are "
        "shown: the machine is busy or its clock is unstable",
        100 * profile.busy);
  if (first_ms > 10 * profile.total_ms)
    Log("warning: the first run took {:.2f} ms, {:.0f} times the others: a process that runs once "
        "sees that",
        first_ms, first_ms / profile.total_ms);
  if (profile.host_ms > profile.steps_ms)
    Log("warning: a run takes {:.3f} ms outside its steps and {:.3f} ms in them: the host is the "
        "bottleneck",
        profile.host_ms, profile.steps_ms);
  if (profile.tax_ms() > 0.1 * profile.total_ms)
    Log("warning: timing the steps adds {:.0f}% to a run: compare steps with each other, not with "
        "`evoq bench`",
        100 * profile.tax_ms() / profile.total_ms);
}

Result<json> Run(const Options& o, const CommonOptions& common) {
  EVOQ_ASSIGN(const InputShapes shapes, ParseShapes(o.shapes));
  EVOQ_ASSIGN(const InputFiles files, ParseInputs(o.inputs));
  EVOQ_ASSIGN(
      const ModelToMeasure m,
      LoadToMeasure(o.model, common.threads, {shapes, files, o.batch, o.tune.stored(), o.phase}));
  Engine* const engine = m.engine.get();
  if (o.tune.measure()) {
    EVOQ_ASSIGN(const TuneReport report, TuneToMeasure(m, o.model));
    Print(Tell(report));
  }
  EVOQ_ASSIGN(FirstRun ready, RunFirst(m));
  Runnable* const runnable = ready.runnable.get();
  const Limits limits = MeasureLimits(engine->isa(), runnable->threads());
  MeasureOptions options;
  options.warmup_ms = o.warmup_ms;
  options.duration_s = o.duration_s;
  options.progress = common.follow.Stage("profiling");
  EVOQ_ASSIGN(const StepProfile profile, MeasureSteps(*runnable, ready.buffers, limits, options));
  Out("{}", Lines{ToText(profile, limits, o.sort)});
  if (m.in_partitions)
    Out("in dynamic partitions ({}); {} prepared in {:.1f} ms\n", engine->in_regions(),
        engine->prepared().count, engine->prepared().ms);
  Warn(profile, ready.first_ms);
  EVOQ_TRY(WriteTrace(o, profile));
  if (!o.layer_info.empty())
    EVOQ_TRY(WriteFileAtomic(
        o.layer_info,
        DecisionsJson(runnable->program()).dump(2, ' ', false, json::error_handler_t::replace) +
            "\n"));
  json out = ToJson(profile);
  out["first_ms"] = ready.first_ms;
  if (m.in_partitions) out["stages"] = engine->prepared().count;
  out["prepare_ms"] = engine->prepared().ms;
  return out;
}

VerbRun Declare(const VerbOptions& options, const CommonOptions& common) {
  auto o = std::make_shared<Options>();
  options.Add("model", o->model, "MODEL.onnx or MODEL.etm").Required();
  options.Add("--batch", o->batch, "Samples per run, where the model leaves it free");
  AddTuneOptions(options, o->tune, "ignore what is stored in the .etm");
  options.Add("--shape", o->shapes, "Sizes of a free input: NAME=1x3x224x224");
  options.Add("--input", o->inputs,
              "Content of an input, where it matters for the time: NAME=F.npy");
  AddPhaseOptions(options, o->phase);
  options.Add("--trace", o->trace, "Write a Chrome trace (Perfetto reads it)");
  options.Add("--layer-info", o->layer_info,
              "Write each step's kernel and the rejected candidates as JSON");
  options.Add("--warmup-ms", o->warmup_ms, "Time to run before measuring")
      .NonNegative()
      .ShowDefault();
  options.Add("--duration-s", o->duration_s, "Time to measure").NonNegative().ShowDefault();
  options.AddFlag("--sort", o->sort, "Slowest steps first");
  return [o, &common] { return Run(*o, common); };
}

}  // namespace

extern const VerbDef kVerbProfile = {
    .name = "profile",
    .doc = "Shows what each step takes: time, share, operations per second, share of the roofline.",
    .example = "evoq profile mobilenetv2.etm --threads 1 --sort",
    .declare = Declare,
};

}  // namespace evoq
