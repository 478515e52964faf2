#include "cli/common.h"
#include "cli/quantization_options.h"
#include "cli/verb.h"
#include "workflow/calibration.h"

namespace evoq {
namespace {

using nlohmann::json;

struct Options {
  CalibrateJob job;
  std::vector<std::string> shapes, fixed;
};

Result<json> Run(Options o, const CommonOptions& common) {
  CalibrateJob& job = o.job;
  EVOQ_ASSIGN(job.quantize.shapes, ParseShapes(o.shapes));
  EVOQ_ASSIGN(job.quantize.fixed, ParseFixed(o.fixed));
  job.quantize.threads = common.threads;
  job.quantize.samples = common.samples;
  EVOQ_ASSIGN(const Calibrated done, CalibrateModel(job, common.follow));
  return Print(Tell(done));
}

VerbRun Declare(const VerbOptions& options, const CommonOptions& common) {
  auto o = std::make_shared<Options>();
  CalibrateJob& job = o->job;
  options.Add("model", job.quantize.model, "MODEL.onnx, or a language model").Required();
  options.Add("-o,--output", job.output, "ranges.json, or the file of a part").Required();
  AddDataOption(options, "--calib", job.quantize.calib, "Calibration data");
  options
      .Add("--calib-random", job.quantize.calib_random,
           "Calibrate on N random samples (for speed tests only)")
      .Positive();
  AddCalibrationLimits(options, job.quantize);
  options.Add("--preprocess", job.quantize.preprocess,
              "How images become inputs (default: MODEL.preprocess.json beside the model)");
  AddObserverOptions(options, job.quantize);
  AddShapeOptions(options, o->shapes, o->fixed, "calibrate on, of random samples");
  AddPassOptions(options, job.quantize.passes);
  options.Add("--part", job.part, "K/N: only part K of N of the samples, for --merge");
  options.Add("--after", job.after,
              "The merged first pass, behind which this is the second over the samples");
  options.Add("--merge", job.merge, "Put the files of all parts of a pass together (repeated)")
      .OneEachTime();
  return [o, &common] { return Run(*o, common); };
}

}  // namespace

extern const VerbDef kVerbCalibrate = {
    .name = "calibrate",
    .doc =
        "Observes the ranges of a model's activations, on one machine or in parts on many, for "
        "quantize --ranges.",
    .example = "evoq calibrate mobilenetv2.onnx --calib images/ -o ranges.json",
    .declare = Declare,
};

}  // namespace evoq
