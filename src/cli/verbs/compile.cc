#include "workflow/compile.h"

#include "cli/common.h"
#include "cli/verb.h"

namespace evoq {
namespace {

using nlohmann::json;

struct Options {
  CompileJob job;
  std::vector<std::string> shapes, fixed, gears;
  int suggest = 0;
  std::string observed;
  double measure_s = 6;
  TuneChoice tune;
};

Result<json> Run(Options o, const CommonOptions& common) {
  EVOQ_ASSIGN(o.job.shapes, ParseShapes(o.shapes));
  EVOQ_ASSIGN(o.job.fixed, ParseFixed(o.fixed));
  EVOQ_ASSIGN(o.job.gears, ParseGears(o.gears));
  if ((o.suggest > 0) != !o.observed.empty())
    return Fail(ErrorCode::kUsage, "--suggest-gears K and --observed F go together");
  if (o.suggest > 0)
    o.job.suggest = {
        .most = static_cast<size_t>(o.suggest), .file = o.observed, .seconds = o.measure_s};
  o.job.tune = o.tune.measure();
  o.job.threads = common.threads;
  EVOQ_ASSIGN(const Compiled compiled, Compile(o.job, common.follow));
  return Print(Tell(compiled));
}

VerbRun Declare(const VerbOptions& options, const CommonOptions& common) {
  auto o = std::make_shared<Options>();
  options.Add("model", o->job.model, "MODEL.onnx, or a MODEL.etm to be tuned or given gears")
      .Required();
  options.Add("-o,--output", o->job.output, "The .etm file to write").Required();
  AddShapeOptions(options, o->shapes, o->fixed, "plan for");
  AddCacheType(options, o->job.kv_cache);
  options
      .Add("--gears", o->gears,
           "Sizes to prepare for, which sessions keep ready and serve other batches by: of an "
           "input's free size NAME=1,8,16, of all NAME=1x128,8x128 (for each of several inputs)")
      .OneEachTime();
  options
      .Add("--suggest-gears", o->suggest,
           "Find the gears, at most K, with the least expected time for the sizes of --observed, "
           "and take "
           "them")
      .InRange(1, 512);
  options.Add("--observed", o->observed,
              "Sizes that came: what a session saved, or lines of `RUNS NAME=1x128`");
  options.Add("--measure-s", o->measure_s, "Time to measure these sizes")
      .InRange(0.1, 3600.0)
      .ShowDefault();
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
