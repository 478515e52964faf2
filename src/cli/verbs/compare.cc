#include "workflow/compare.h"

#include "cli/common.h"
#include "cli/verb.h"

namespace evoq {
namespace {

using nlohmann::json;

struct Options {
  CompareJob job;
  std::vector<std::string> shapes, inputs;
};

Result<json> Run(Options o, const CommonOptions& common) {
  EVOQ_ASSIGN(o.job.shapes, ParseShapes(o.shapes));
  EVOQ_ASSIGN(o.job.inputs, ParseInputs(o.inputs));
  o.job.threads = common.threads;
  EVOQ_ASSIGN(const Compared compared, Compare(o.job, common.follow));
  json out = Print(Tell(compared));
  const Status kept = CheckNotSlower(compared.result, o.job.fail_slower);
  if (kept) return out;
  EVOQ_TRY(WriteJson(common.json_path, out));  // a regression's figures are wanted most
  return tl::unexpected(kept.error());
}

VerbRun Declare(const VerbOptions& options, const CommonOptions& common) {
  auto o = std::make_shared<Options>();
  options.Add("a", o->job.a, "MODEL, or a file of bench --export-times").Required();
  options.Add("b", o->job.b, "The other one").Required();
  options.Add("--batch", o->job.batch, "Samples per run, where the models leave it free")
      .Positive();
  options.Add("--shape", o->shapes, "Sizes of a free input: NAME=1x3x224x224");
  options.Add("--input", o->inputs,
              "Content of an input, where it matters for the time: NAME=F.npy");
  AddPhaseOptions(options, o->job.phase);
  options.Add("--duration-s", o->job.duration_s, "Time to measure, for both together")
      .Positive()
      .ShowDefault();
  options.Add("--warmup-ms", o->job.warmup_ms, "Time to run before measuring")
      .NonNegative()
      .ShowDefault();
  options.Add("--rounds", o->job.rounds, "Rounds, each with freshly loaded models")
      .InRange(3, 1000)
      .ShowDefault();
  options.Add("--report", o->job.report,
              "Also write both side by side as one HTML file that opens offline");
  options
      .Add("--fail-slower", o->job.fail_slower,
           "Exit with 1 when B is slower than A by more than so many percent")
      .NonNegative();
  return [o, &common] { return Run(*o, common); };
}

}  // namespace

extern const VerbDef kVerbCompare = {
    .name = "compare",
    .doc = "Says whether B is faster or slower than A, with a confidence interval.",
    .example = "evoq compare mobilenetv2.onnx mobilenetv2.etm --threads 1",
    .declare = Declare,
};

}  // namespace evoq
