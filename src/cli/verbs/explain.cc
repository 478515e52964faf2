#include "workflow/explain.h"

#include "cli/common.h"
#include "cli/verb.h"
#include "foreign/forecasts/runtime.h"
#include "workflow/explain_profile.h"
#include "workflow/explain_target.h"

namespace evoq {
namespace {

using nlohmann::json;

struct Options {
  ExplainJob job;
  TargetJob target;                  // with its name, nothing is measured
  std::vector<std::string> foreign;  // a path for each of AllForeignSources()
  std::vector<std::string> shapes, inputs;
};

Result<json> Run(Options o, const CommonOptions& common) {
  EVOQ_ASSIGN(o.job.shapes, ParseShapes(o.shapes));
  EVOQ_ASSIGN(o.job.inputs, ParseInputs(o.inputs));
  o.job.threads = common.threads;
  EVOQ_ASSIGN(const Explanation e, Explain(o.job, common.follow));
  return Print(Tell(e));
}

Result<json> RunTarget(Options o, const CommonOptions& common) {
  EVOQ_ASSIGN(o.target.shapes, ParseShapes(o.shapes));
  o.target.model = o.job.model;
  EVOQ_ASSIGN(const TargetForecast forecast, ExplainTarget(o.target, common.follow));
  return Print(Tell(forecast));
}

Result<json> RunForeign(const ForeignJob& job) {
  EVOQ_ASSIGN(const ForeignExplanation e, ExplainForeign(job));
  return Print(Tell(e));
}

Result<json> Choose(const Options& o, const CommonOptions& common) {
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
  if (chosen == nullptr && o.job.model.empty()) {
    std::vector<std::string> options;
    for (const ForeignSource* source : sources) options.push_back(source->option);
    return Fail(ErrorCode::kUsage, "explain what? Give a MODEL, or another runtime's files with {}",
                fmt::join(options, " or "));
  }
  if (!o.target.target.empty()) {
    if (chosen != nullptr)
      return Fail(ErrorCode::kUsage, "{} and --target exclude each other", chosen->option);
    return RunTarget(o, common);
  }
  if (o.target.accept_changes || !o.target.data.empty() || !o.target.preprocess.empty())
    return Fail(ErrorCode::kUsage,
                "--accept-changes, --data and --preprocess are for --target NAME --fix");
  if (o.target.fix || !o.target.output.empty())
    return Fail(ErrorCode::kUsage, "--fix needs the runtime to repair for: --target NAME");
  if (chosen == nullptr) {
    EVOQ_ASSIGN(const ForeignFile file, FindForeignFile(o.job.model));
    if (file.source == nullptr) return Run(o, common);
    return RunForeign({file.source, file.path, o.job.baseline});
  }
  if (!o.job.model.empty())
    return Fail(ErrorCode::kUsage, "{} explains another runtime's files: it takes no MODEL",
                chosen->option);
  return RunForeign({chosen, path, o.job.baseline});
}

VerbRun Declare(const VerbOptions& options, const CommonOptions& common) {
  auto o = std::make_shared<Options>();
  options.Add("model", o->job.model, "MODEL.etm, MODEL.onnx, or a profile of another runtime");
  options.Add(
      "--baseline", o->job.baseline,
      "The float model (or, with another runtime's files, those of the run to compare with)");
  o->foreign.resize(AllForeignSources().size());
  for (size_t i = 0; i < o->foreign.size(); ++i)
    options.Add(AllForeignSources()[i]->option, o->foreign[i], AllForeignSources()[i]->doc)
        .Takes(AllForeignSources()[i]->takes);
  std::vector<std::string> runtimes;
  for (const Runtime* runtime : AllRuntimes()) runtimes.push_back(runtime->name);
  options.Add("--target", o->target.target,
              fmt::format("Say from the graph alone what this runtime will make of an .onnx: {}",
                          fmt::join(runtimes, ", ")));
  options.AddFlag("--fix", o->target.fix,
                  "With --target: repair the placement of Q/DQ, and write it to -o");
  options.Add("-o,--output", o->target.output, "The repaired .onnx");
  options.AddFlag(
      "--accept-changes", o->target.accept_changes,
      "With --fix: also make repairs that change the outputs; else they are named and left out");
  AddDataOption(
      options, "--data", o->target.data,
      "With --fix: what the outputs before and after are compared on (default: random inputs)");
  options.Add(
      "--preprocess", o->target.preprocess,
      "With --data: how images become inputs (default: MODEL.preprocess.json beside the model)");
  options.Add("--report", o->job.report, "Also write it as one HTML file that opens offline");
  options.Add("--eval", o->job.eval,
              "For the report: the model's accuracy, as `evoq eval --json F` wrote it");
  options.Add("--baseline-eval", o->job.baseline_eval, "For the report: the baseline's accuracy");
  options.Add("--shape", o->shapes, "Sizes of a free input: NAME=1x3x224x224");
  options.Add("--input", o->inputs,
              "Content of an input, where it matters for the time: NAME=F.npy");
  options.Add("--batch", o->job.batch, "Samples per run, where the model leaves it free");
  AddPhaseOptions(options, o->job.phase);
  options.Add("--duration-s", o->job.duration_s, "Time to measure each model")
      .NonNegative()
      .ShowDefault();
  return [o, &common] { return Choose(*o, common); };
}

}  // namespace

extern const VerbDef kVerbExplain = {
    .name = "explain",
    .doc = "Says where each millisecond and each byte went, why, and what helps.",
    .example = "evoq explain mobilenetv2.etm --baseline mobilenetv2.onnx",
    .declare = Declare,
};

}  // namespace evoq
