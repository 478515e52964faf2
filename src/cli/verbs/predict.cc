#include "workflow/predict.h"

#include "cli/common.h"
#include "cli/verb.h"

namespace evoq {
namespace {

using nlohmann::json;

struct Options {
  PredictJob job;
  std::vector<std::string> shapes, inputs;
};

Result<json> Run(Options o, const CommonOptions& common) {
  EVOQ_ASSIGN(o.job.shapes, ParseShapes(o.shapes));
  EVOQ_ASSIGN(o.job.inputs, ParseInputs(o.inputs));
  o.job.threads = common.threads;
  EVOQ_ASSIGN(const Predicted predicted, Predict(o.job, common.follow));
  return Print(Tell(predicted));
}

VerbRun Declare(const VerbOptions& options, const CommonOptions& common) {
  auto o = std::make_shared<Options>();
  options.Add("model", o->job.model, "MODEL.onnx, or a language model").Required();
  options
      .Add("--scheme", o->job.schemes,
           "Only these (evoq list schemes); float32 is always there to compare with")
      .SplitAt(',');
  options.Add("--shape", o->shapes, "Sizes of a free input: NAME=1x3x224x224");
  options.Add("--batch", o->job.batch, "Samples per run, where the model leaves it free")
      .Positive();
  options.Add("--input", o->inputs,
              "Content of an input of a model whose steps depend on data: NAME=F.npy");
  AddPhaseOptions(options, o->job.phase, "both");
  options.Add("--limits", o->job.limits,
              "Of another machine: what `evoq limits --json F` wrote there");
  options.Add("--ranges", o->job.ranges,
              "Calibrated ranges (quantize --save-ranges): a file so small that it is "
              "compressed gets its exact size");
  options.AddFlag("--check", o->job.check,
                  "Then run every scheme and show how far off the forecast is");
  return [o, &common] { return Run(*o, common); };
}

}  // namespace

extern const VerbDef kVerbPredict = {
    .name = "predict",
    .doc =
        "Forecasts size and latency of each quantization scheme, without data and without running "
        "the model.",
    .example = "evoq predict mobilenetv2.onnx --threads 1",
    .declare = Declare,
};

}  // namespace evoq
