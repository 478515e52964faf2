#include "workflow/sensitivity.h"

#include "cli/common.h"
#include "cli/probe_options.h"
#include "cli/quantization_options.h"
#include "cli/verb.h"

namespace evoq {
namespace {

using nlohmann::json;

struct Options {
  SensitivityJob job;
  std::vector<std::string> shapes, fixed;
};

Result<json> Run(Options o, const CommonOptions& common) {
  SensitivityJob& job = o.job;
  EVOQ_ASSIGN(job.probe.shapes, ParseShapes(o.shapes));
  EVOQ_ASSIGN(job.quantize.fixed, ParseFixed(o.fixed));
  job.quantize.shapes = job.probe.shapes;
  job.quantize.preprocess = job.probe.preprocess;
  job.quantize.threads = common.threads;
  job.probe.samples = common.samples;
  EVOQ_ASSIGN(const SensitivityFound found, FindSensitivity(job, common.follow));
  return Print(Tell(found));
}

VerbRun Declare(const VerbOptions& options, const CommonOptions& common) {
  auto o = std::make_shared<Options>();
  QuantizeJob& quantize = o->job.quantize;
  options.Add("model", quantize.model, "MODEL.onnx, or a language model").Required();
  AddProbeOptions(options, o->job.probe, o->shapes);
  options.Add("--labels", o->job.probe.labels,
              "A .tsv with the columns file and class_index, an idx label file or a .npy; "
              "`folders`: the folders of --data, sorted by name, are the classes");
  AddSchemeOptions(options, quantize);
  AddDataOption(options, "--calib", quantize.calib,
                "Calibration data (default: that of --data, --random or --text)");
  AddCalibrationLimits(options, quantize);
  AddNumberOptions(options, quantize);
  AddLayerAndRangeOptions(options, quantize);
  options.Add("--fix-shape", o->fixed,
              "Fix sizes of an input for good: NAME=?x3x224x224, where ? stays free");
  options.Add(
      "--min-sqnr", o->job.min_sqnr_db,
      "Look for the layers to --exclude for so much signal to noise of every output, in dB");
  options.Add("--report", o->job.report, "Also write it as one HTML file that opens offline");
  return [o, &common] { return Run(*o, common); };
}

}  // namespace

extern const VerbDef kVerbSensitivity = {
    .name = "sensitivity",
    .doc =
        "Says which layers lose what a quantized model loses: each one quantized alone, and each "
        "one alone left in float.",
    .example = "evoq sensitivity mobilenetv2.onnx --data images/ --min-sqnr 20",
    .declare = Declare,
};

}  // namespace evoq
