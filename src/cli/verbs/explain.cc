#include "cli/explain.h"

#include "base/file.h"
#include "cli/common.h"
#include "cli/explain_target.h"
#include "cli/report_model.h"
#include "cli/verb.h"
#include "doctor/source.h"
#include "placement/runtime.h"
#include "report/doctor_text.h"
#include "report/html.h"
#include "report/ledger.h"
#include "report/table.h"

namespace evoq {
namespace {

using nlohmann::json;

struct Options {
  std::string model, baseline, report, eval, baseline_eval;
  std::string target, output;  // with a target, nothing is measured
  bool fix = false, accept_changes = false;
  std::vector<std::string> data;  // of --fix
  std::string preprocess;
  std::vector<std::string> foreign;  // a path for each of AllForeignSources()
  std::vector<std::string> shapes, inputs;
  int batch = 0;
  double duration_s = 2;
};

// Why each step that is neither int8 nor bf16 is not.
void PrintFloatSteps(const Program& program) {
  TextTable table({"step", "op", "kernel", "code", "why"});
  int count = 0, bf16 = 0;
  for (const Step& step : program.steps) {
    bf16 += step.decision.precision == "bf16";
    if (step.decision.float_code.empty()) continue;
    const Node& node = program.graph->node(step.node);
    table.Row({node.name, node.op, step.decision.kernel, step.decision.float_code,
               step.decision.float_why});
    ++count;
  }
  if (count == 0) {
    Out("every step that could be {} is\n", bf16 > 0 ? "bf16" : "int8");
  } else {
    Out("steps that could be {} and are not:\n{}", bf16 > 0 ? "bf16" : "int8",
        Lines{table.ToString()});
  }
}

Status WriteReport(const Options& o, const Explanation& e) {
  Report report;
  report.limits = e.limits;
  report.time = e.time;
  report.bytes = e.bytes;
  EVOQ_ASSIGN(report.model, ForReport(o.model, o.eval, *e.model.executor, e.model.profile));
  if (e.baseline) {
    EVOQ_ASSIGN(report.baseline,
                ForReport(o.baseline, o.baseline_eval, *e.baseline->executor, e.baseline->profile));
    // Of the same rounds as everything else on the page.
    if (const Comparison c = CompareProfiles(e.baseline->profile, e.model.profile); c.rounds > 0)
      report.comparison = c;
  }
  EVOQ_TRY(WriteFileAtomic(o.report, ToHtml(report)));
  Out("\nwrote {}\n", o.report);
  return {};
}

Result<json> Run(const Options& o, int threads) {
  if (!o.report.empty()) EVOQ_TRY(CheckOutputPath(o.report));
  EVOQ_ASSIGN(
      const Explanation e,
      Explain({o.model, o.baseline, o.shapes, o.batch, threads, o.duration_s, {}, {}, o.inputs}));
  json out;
  Out("{}", Lines{ToText(e.model.profile, e.limits)});
  if (!e.in_partitions.empty())
    Out("steps of a run on {}: {}\n",
        o.inputs.empty() ? "made-up inputs (--input gives real ones)" : "these inputs",
        e.in_partitions);
  Out("\n");
  PrintFloatSteps(e.model.executor->program());
  out["profile"] = ToJson(e.model.profile);
  out["decisions"] = DecisionsJson(e.model.executor->program());
  if (e.time) {
    if (!e.attainable_why.empty())
      Log("note: what faulty steps could take is estimated, because evoq cannot quantize the "
          "baseline itself: {}",
          e.attainable_why);
    Out("\n{}", Lines{ToText(*e.time)});
    out["time"] = ToJson(*e.time);
    if (const Comparison c = CompareProfiles(e.baseline->profile, e.model.profile); c.rounds > 0)
      out["compare"] = ToJson(c);
  }
  if (e.bytes) {
    Out("\n{}", Lines{ToText(*e.bytes)});
    out["bytes"] = ToJson(*e.bytes);
  }
  if (!o.report.empty()) EVOQ_TRY(WriteReport(o, e));
  return out;
}

// Another runtime's own files instead of a model.
Result<json> RunDoctor(const Options& o, const ForeignSource& source, const std::string& path) {
  EVOQ_ASSIGN(const ForeignRun run, source.read(path));
  std::optional<ForeignRun> baseline;
  if (!o.baseline.empty()) {
    EVOQ_ASSIGN(baseline, source.read(o.baseline));
  }
  const ForeignRun* const before = baseline ? &*baseline : nullptr;
  const Diagnosis diagnosis = Diagnose(run, before);
  Out("{}", Lines{ToText(run, before, diagnosis)});
  return ToJson(run, before, diagnosis);
}

Result<json> Choose(const Options& o, int threads) {
  const auto sources = AllForeignSources();
  const ForeignSource* chosen = nullptr;
  std::string path;
  for (size_t i = 0; i < sources.size(); ++i) {
    if (o.foreign[i].empty()) continue;
    if (chosen != nullptr)
      return Fail(ErrorCode::kUsage, "{} and {} exclude each other", chosen->option,
                  sources[i]->option);
    chosen = sources[i];
    path = o.foreign[i];
  }
  if (chosen == nullptr && o.model.empty()) {
    std::vector<std::string> options;
    for (const ForeignSource* source : sources) options.push_back(source->option);
    return Fail(ErrorCode::kUsage, "explain what? Give a MODEL, or another runtime's files with {}",
                fmt::join(options, " or "));
  }
  if (!o.target.empty()) {
    if (chosen != nullptr)
      return Fail(ErrorCode::kUsage, "{} and --target exclude each other", chosen->option);
    return ExplainTarget(
        {o.model, o.target, o.fix, o.output, o.accept_changes, o.data, o.shapes, o.preprocess});
  }
  if (o.accept_changes || !o.data.empty() || !o.preprocess.empty())
    return Fail(ErrorCode::kUsage,
                "--accept-changes, --data and --preprocess are for --target NAME --fix");
  if (o.fix || !o.output.empty())
    return Fail(ErrorCode::kUsage, "--fix needs the runtime to repair for: --target NAME");
  if (chosen == nullptr) return Run(o, threads);
  if (!o.model.empty())
    return Fail(ErrorCode::kUsage, "{} explains another runtime's files: it takes no MODEL",
                chosen->option);
  return RunDoctor(o, *chosen, path);
}

VerbRun Declare(CLI::App& app, const CommonOptions& common) {
  auto o = std::make_shared<Options>();
  app.add_option("model", o->model, "MODEL.etm or MODEL.onnx");
  app.add_option(
      "--baseline", o->baseline,
      "The float model (or, with another runtime's files, those of the run to compare with)");
  o->foreign.resize(AllForeignSources().size());
  for (size_t i = 0; i < o->foreign.size(); ++i)
    app.add_option(AllForeignSources()[i]->option, o->foreign[i], AllForeignSources()[i]->doc)
        ->type_name(AllForeignSources()[i]->takes);
  std::vector<std::string> runtimes;
  for (const Runtime* runtime : AllRuntimes()) runtimes.push_back(runtime->name);
  app.add_option("--target", o->target,
                 fmt::format("Say from the graph alone what this runtime will make of an .onnx: {}",
                             fmt::join(runtimes, ", ")));
  app.add_flag("--fix", o->fix, "With --target: repair the placement of Q/DQ, and write it to -o");
  app.add_option("-o,--output", o->output, "The repaired .onnx");
  app.add_flag(
      "--accept-changes", o->accept_changes,
      "With --fix: also make repairs that change the outputs; else they are named and left out");
  AddDataOption(
      app, "--data", o->data,
      "With --fix: what the outputs before and after are compared on (default: random inputs)");
  app.add_option(
      "--preprocess", o->preprocess,
      "With --data: how images become inputs (default: MODEL.preprocess.json beside the model)");
  app.add_option("--report", o->report, "Also write it as one HTML file that opens offline");
  app.add_option("--eval", o->eval,
                 "For the report: the model's accuracy, as `evoq eval --json F` wrote it");
  app.add_option("--baseline-eval", o->baseline_eval, "For the report: the baseline's accuracy");
  app.add_option("--shape", o->shapes, "Sizes of a free input: NAME=1x3x224x224");
  app.add_option("--input", o->inputs,
                 "Content of an input, where it matters for the time: NAME=F.npy");
  app.add_option("--batch", o->batch, "Samples per run, where the model leaves it free");
  app.add_option("--duration-s", o->duration_s, "Time to measure each model")
      ->capture_default_str();
  return [o, &common] { return Choose(*o, common.threads); };
}

}  // namespace

extern const VerbDef kVerbExplain = {
    "explain", "Says where each millisecond and each byte went, why, and what helps.",
    "evoq explain mobilenetv2.etm --baseline mobilenetv2.onnx", Declare};

}  // namespace evoq
