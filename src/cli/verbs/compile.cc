#include "workflow/compile.h"

#include "cli/common.h"
#include "cli/verb.h"

namespace evoq {
namespace {

using nlohmann::json;

struct Options {
  CompileJob job;
  std::vector<std::string> shapes, fixed;
  TuneChoice tune;
};

Result<json> Run(Options o, const CommonOptions& common) {
  EVOQ_ASSIGN(o.job.shapes, ParseShapes(o.shapes));
  EVOQ_ASSIGN(o.job.fixed, ParseFixed(o.fixed));
  o.job.tune = o.tune.measure();
  o.job.threads = common.threads;
  EVOQ_ASSIGN(const Compiled compiled, Compile(o.job, common.follow));
  return Print(Tell(compiled));
}

VerbRun Declare(const VerbOptions& options, const CommonOptions& common) {
  auto o = std::make_shared<Options>();
  options.Add("model", o->job.model, "MODEL.onnx, or a MODEL.etm to be tuned").Required();
  options.Add("-o,--output", o->job.output, "The .etm file to write").Required();
  AddShapeOptions(options, o->shapes, o->fixed, "plan for");
  AddPassOptions(options, o->job.passes);
  AddTuneOptions(options, o->tune, "the default, the same bytes from the same model");
  return [o, &common] { return Run(*o, common); };
}

}  // namespace

extern const VerbDef kVerbCompile = {
    .name = "compile",
    .doc = "Writes a model as .etm as it is, without a change of precision.",
    .example = "evoq compile mobilenetv2.onnx -o mobilenetv2.etm",
    .declare = Declare,
};

}  // namespace evoq
