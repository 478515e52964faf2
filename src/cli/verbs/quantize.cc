#include "workflow/quantize.h"

#include <algorithm>

#include "cli/common.h"
#include "cli/quantization_options.h"
#include "cli/verb.h"
#include "encodings/encoding.h"
#include "onnx/onnx.h"
#include "quant/unfuse.h"
#include "workflow/config.h"

namespace evoq {
namespace {

using nlohmann::json;

// docs/certificate.md
void AddPromise(const VerbOptions& options, QuantizeJob& job) {
  options
      .Add("--max-drop", job.promise.max_drop,
           "Promise: at most so many points of top-1 (without labels: of the float model's "
           "classes) are lost")
      .InRange(0.0, 100.0);
  options.Add("--min-sqnr", job.promise.min_sqnr_db,
              "Promise: signal to noise of every output against the float model's, in dB");
  options
      .Add("--max-perplexity-growth", job.promise.max_growth,
           "Promise of a language model: the perplexity of --text grows by at most so many percent")
      .NonNegative();
  options.Add("--text", job.text,
              "Of a language model: the text that perplexity is measured on; also calibrates");
  options.Add("--tokenizer", job.tokenizer,
              "Of --text: a tokenizer's file or folder (default: the one that the model carries)");
  options.Add("--window", job.window, "Of --text: tokens that the model sees at once")
      .InRange(1, 1 << 20)
      .ShowDefault();
  options.AddFlag("--never-slower", job.promise.never_slower,
                  "Promise: not slower than the float model on this machine");
  AddDataOption(options, "--data", job.data,
                "What accuracy is measured on; also calibrates when --calib is not given");
  options.Add("--labels", job.labels,
              "A .tsv with the columns file and class_index, an idx label file or a .npy; "
              "`folders`: the folders of --data, sorted by name, are the classes");
  options
      .Add("--data-limit", job.data_limit, "Measure on at most N samples, evenly spread (0: all)")
      .NonNegative()
      .ShowDefault();
  options
      .Add("--search-s", job.search_s, "Time for the search of --scheme auto, and of --method auto")
      .Positive()
      .ShowDefault();
  options
      .Add("--measure-s", job.measure_s,
           "Time for the last measurement of speed, waiting for a quiet machine included")
      .Positive()
      .ShowDefault();
}

// Files of other tools (docs/encodings.md).
void AddOutside(const VerbOptions& options, QuantizeJob& job) {
  options.Add("--encodings,--quantization_overrides", job.encodings,
              "AIMET's encodings: parameters by tensor name, taken in place of the scheme's own");
  options.Add("--encodings-out", job.encodings_out,
              "Write the parameters that were used as AIMET's encodings");
  std::vector<std::string> versions;
  for (const EncodingsVersion* version : AllEncodingsVersions()) versions.push_back(version->name);
  options.Add("--encodings-version", job.encodings_version, "Of --encodings-out")
      .OneOf(versions)
      .ShowDefault();
  options.Add("--calib-cache", job.calib_cache,
              "TensorRT's calibration cache: scales of activations, taken as they are");
  options.Add("--calib-cache-out", job.calib_cache_out,
              "Write the scales of activations as TensorRT's calibration cache");
}

// The option of a field of --config.
std::string OptionOf(const char* key) {
  std::string name = std::string("--") + key;
  std::ranges::replace(name, '_', '-');
  return name;
}

std::vector<std::string> ConfigKeys() {
  std::vector<std::string> keys;
  for (const ConfigField& field : QuantizeFields()) keys.push_back(field.key);
  return keys;
}

VerbRun Declare(const VerbOptions& options, const CommonOptions& common) {
  auto o = std::make_shared<QuantizeJob>();
  auto config = std::make_shared<std::string>();
  auto tune = std::make_shared<TuneChoice>();
  options.Add("model", o->model, "MODEL.onnx, or a language model").Required();
  options.Add("-o,--output", o->output, "OUT.etm or OUT.onnx").Required();
  AddSchemeOptions(options, *o, ", or auto: a scheme for each layer, by measuring",
                   ", or auto: those that pay, by trying them for --search-s");
  AddDataOption(options, "--calib", o->calib, "Calibration data");
  options
      .Add("--calib-random", o->calib_random,
           "Calibrate on N random samples (for speed tests only)")
      .Positive();
  AddCalibrationLimits(options, *o);
  options
      .Add("--scale-sets", o->scale_sets,
           "Several scale sets, which runs with --adaptive change between: K groups of the "
           "calibration samples, or NAME=PATH for each, with its own samples")
      .OneEachTime();
  options.Add("--preprocess", o->preprocess,
              "How images become inputs (default: MODEL.preprocess.json beside the model)");
  AddNumberOptions(options, *o);
  std::vector<std::string> targets;
  for (const QdqTarget& target : AllQdqTargets()) {
    targets.push_back(target.name);
    // The name that `explain --target` has for it.
    if (*target.runtime && target.runtime != targets.back()) targets.push_back(target.runtime);
  }
  options.Add("--target", o->target, "The runtime that the Q/DQ pairs of an .onnx are placed for")
      .OneOf(targets)
      .ShowDefault();
  options.Add("--opset", o->opset,
              fmt::format("The operator set of an .onnx, {} to {} (default: the oldest that it "
                          "needs, {} or newer)",
                          kOldestExport, kNewestExport, kExportOpset));
  AddLayerAndRangeOptions(options, *o);
  options.Add("--save-ranges", o->ranges_out, "Save the calibrated ranges as JSON");
  AddOutside(options, *o);
  auto shapes = std::make_shared<std::vector<std::string>>();
  auto fixed = std::make_shared<std::vector<std::string>>();
  AddShapeOptions(options, *shapes, *fixed, "plan and measure for, and of random samples");
  AddPassOptions(options, o->passes);
  AddCacheType(options, o->kv_cache);
  AddPromise(options, *o);
  AddTuneOptions(options, *tune, "the default, the same bytes from the same command");
  options.Add("--config", *config,
              fmt::format("Options as a JSON file: {}", fmt::join(ConfigKeys(), ", ")));
  return [=, &common]() -> Result<json> {
    QuantizeJob job = *o;
    job.threads = common.threads;
    job.samples = common.samples;
    job.tune = tune->measure();
    if (!config->empty()) {
      QuantizeJob file;
      EVOQ_TRY(ReadConfig(*config, file));
      // What the command line says wins over the file.
      TakeFrom(file, job, [&](const char* key) { return options.given(OptionOf(key)); });
    }
    EVOQ_ASSIGN(job.shapes, ParseShapes(*shapes));
    EVOQ_ASSIGN(job.fixed, ParseFixed(*fixed));
    EVOQ_ASSIGN(const Quantized done, Quantize(job, common.follow));
    return Print(Tell(done));
  };
}

}  // namespace

extern const VerbDef kVerbQuantize = {
    .name = "quantize",
    .doc =
        "Quantizes a model and writes it as .etm, or as ONNX with QuantizeLinear and "
        "DequantizeLinear.",
    .example =
        "evoq quantize mobilenetv2.onnx --scheme int8 --calib images/ --preprocess "
        "mobilenetv2.preprocess.json -o mobilenetv2.etm",
    .declare = Declare,
};

}  // namespace evoq
