#include "predict/predict.h"

#include "cli/common.h"
#include "cli/measure_regions.h"
#include "cli/verb.h"
#include "compile/compile.h"
#include "ops/op.h"
#include "profile/limits_file.h"
#include "program/etm.h"

namespace evoq {
namespace {

using nlohmann::json;

struct Options {
  std::string model, limits, ranges;
  std::vector<std::string> schemes, shapes, inputs;
  int batch = 0;
  bool check = false;
};

// Of the file that --limits names, of an earlier run, or measured now and kept.
Result<MachineLimits> FindOrMeasure(const Options& o, int threads) {
  if (!o.limits.empty()) {
    EVOQ_ASSIGN(MachineLimits limits, LoadLimits(o.limits));
    if (threads > 0 && threads != limits.threads)
      return Fail(ErrorCode::kUsage, "--threads {}: {} was measured with {}", threads, o.limits,
                  limits.threads);
    return limits;
  }
  EVOQ_ASSIGN(const Isa isa, SelectIsa());
  const int wanted = threads > 0 ? threads : PhysicalCores();
  const std::string path = LimitsCachePath();
  if (const Result<std::optional<MachineLimits>> kept = FindLimits(path, isa, wanted); !kept) {
    Log("warning: the limits cache is ignored: {}", kept.error().message());
  } else if (*kept) {
    return **kept;
  }
  const MachineLimits limits = MeasureMachine(isa, wanted);
  if (const Status kept = KeepLimits(path, limits); !kept)
    Log("warning: {}", kept.error().message());
  return limits;
}

// The inputs that a model whose steps depend on data is run on, and why it needs them; "" for a
// single Program.
Result<std::string> FindSample(const Options& o, const Graph& graph, PredictOptions& options) {
  EVOQ_ASSIGN(const InputShapes all, ShapesToMeasure(graph, options.run_shapes, o.inputs));
  EVOQ_ASSIGN(const Graph bound, Bound(graph, all));
  const std::string why = WhyNoProgram(bound).value_or("");
  if (why.empty()) return why;
  options.shapes = options.run_shapes = all;
  EVOQ_ASSIGN(options.sample, InputsToMeasure(graph, all, o.inputs));
  return why;
}

Result<json> Run(const Options& o, int threads) {
  if (IsEtmFile(o.model))
    return Fail(ErrorCode::kUsage, "{} is compiled already; predict reads the .onnx", o.model);
  EVOQ_ASSIGN(const Graph graph, LoadOptimizedGraph(o.model));
  PredictOptions options;
  EVOQ_ASSIGN(options.shapes, ParseShapes(o.shapes));
  EVOQ_ASSIGN(options.run_shapes, WithBatch(graph, options.shapes, o.batch));
  EVOQ_ASSIGN(options.limits, FindOrMeasure(o, threads));
  if (o.check && !IsaSupported(options.limits.isa))
    return Fail(ErrorCode::kUsage, "--check measures on this machine, which lacks {} of {}",
                IsaName(options.limits.isa), o.limits);
  Graph bound = graph;
  if (!options.shapes.empty()) EVOQ_TRY(BindShapes(bound, options.shapes));
  options.float_weight_bytes = FloatWeightBytes(bound);
  EVOQ_ASSIGN(const std::string why, FindSample(o, graph, options));
  options.schemes = o.schemes;
  if (!o.ranges.empty()) {
    EVOQ_ASSIGN(options.ranges, LoadRanges(o.ranges));
  }
  options.check = o.check;
  Progress progress("predicting");
  options.progress = [&](double f) { progress.Update(f); };
  EVOQ_ASSIGN(Forecast forecast, WithContext(Predict(graph, o.model, options), o.model));
  forecast.in_partitions = why;
  Out("{}", Lines{ToText(forecast)});
  return ToJson(forecast);
}

VerbRun Declare(CLI::App& app, const CommonOptions& common) {
  auto o = std::make_shared<Options>();
  app.add_option("model", o->model, "MODEL.onnx")->required();
  app.add_option("--scheme", o->schemes,
                 "Only these (evoq list methods); float32 is always there to compare with")
      ->delimiter(',');
  app.add_option("--shape", o->shapes, "Sizes of a free input: NAME=1x3x224x224");
  app.add_option("--batch", o->batch, "Samples per run, where the model leaves it free")
      ->check(CLI::PositiveNumber);
  app.add_option("--input", o->inputs,
                 "Content of an input of a model whose steps depend on data: NAME=F.npy");
  app.add_option("--limits", o->limits,
                 "Of another machine: what `evoq limits --json F` wrote there");
  app.add_option("--ranges", o->ranges,
                 "Calibrated ranges (quantize --save-ranges): a file so small that it is "
                 "compressed gets its exact size");
  app.add_flag("--check", o->check, "Then run every scheme and show how far off the forecast is");
  return [o, &common] { return Run(*o, common.threads); };
}

}  // namespace

extern const VerbDef kVerbPredict = {"predict",
                                     "Forecasts size and latency of each quantization scheme, "
                                     "without data and without running the model.",
                                     "evoq predict mobilenetv2.onnx --threads 1", Declare};

}  // namespace evoq
