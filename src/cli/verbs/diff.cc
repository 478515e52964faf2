#include "workflow/diff.h"

#include "cli/common.h"
#include "cli/probe_options.h"
#include "cli/verb.h"

namespace evoq {
namespace {

using nlohmann::json;

struct Options {
  DiffJob job;
  std::vector<std::string> shapes;
};

Result<json> Run(Options o, const CommonOptions& common) {
  EVOQ_ASSIGN(o.job.probe.shapes, ParseShapes(o.shapes));
  o.job.probe.samples = common.samples;
  o.job.threads = common.threads;
  EVOQ_ASSIGN(const Diffed diffed, Diff(o.job, common.follow));
  json out = Print(Tell(diffed));
  const Status kept = CheckKept(diffed, o.job.min_sqnr_db, o.job.max_error);
  if (kept) return out;
  EVOQ_TRY(WriteJson(common.json_path, out));
  return tl::unexpected(kept.error());
}

VerbRun Declare(const VerbOptions& options, const CommonOptions& common) {
  auto o = std::make_shared<Options>();
  options.Add("a", o->job.a, "The model that is right: .onnx, .etm or a language model").Required();
  options.Add("b", o->job.b, "The model in question").Required();
  AddProbeOptions(options, o->job.probe, o->shapes);
  options.AddFlag("--reference", o->job.reference,
                  "Run A by the reference evaluator: slow, exact, without passes and kernels");
  options.Add(
      "--bad", o->job.bad_db,
      "A step is bad whose own signal to noise is below so many dB (default: 20; 60 where B "
      "is float32 throughout)");
  options.Add("--keep", o->job.keep,
              "Write the worst sample's inputs, outputs and first bad value to this .npz file");
  options.Add("--min-sqnr", o->job.min_sqnr_db,
              "Exit with 1 when an output's signal to noise is below so many dB");
  options
      .Add("--max-error", o->job.max_error,
           "Exit with 1 when an element of an output is off by more")
      .NonNegative();
  return [o, &common] { return Run(*o, common); };
}

}  // namespace

extern const VerbDef kVerbDiff = {
    .name = "diff",
    .doc = "Says where a model parts from another: the error of each layer, and the first bad one.",
    .example = "evoq diff mobilenetv2.onnx mobilenetv2.etm --data images/",
    .declare = Declare,
};

}  // namespace evoq
