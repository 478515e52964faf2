#include "workflow/predict.h"

#include "base/printable.h"
#include "compile/compile.h"
#include "profile/limits_file.h"
#include "program/etm.h"
#include "reference/reference.h"
#include "workflow/to_measure.h"

namespace evoq {
namespace {

// Of the file that --limits names, of an earlier run, or measured now and kept.
Result<MachineLimits> FindOrMeasure(const PredictJob& job, std::vector<std::string>& warnings) {
  if (!job.limits.empty()) {
    EVOQ_ASSIGN(MachineLimits limits, LoadLimits(job.limits));
    if (job.threads > 0 && job.threads != limits.threads)
      return Fail(ErrorCode::kUsage, "--threads {}: {} was measured with {}", job.threads,
                  job.limits, limits.threads);
    return limits;
  }
  EVOQ_ASSIGN(const Isa isa, SelectIsa());
  const int wanted = job.threads > 0 ? job.threads : PhysicalCores();
  const std::string path = LimitsCachePath();
  if (const Result<std::optional<MachineLimits>> kept = FindLimits(path, isa, wanted); !kept) {
    warnings.push_back("the limits cache is ignored: " + kept.error().message());
  } else if (*kept) {
    return **kept;
  }
  const MachineLimits limits = MeasureMachine(isa, wanted);
  if (const Status kept = KeepLimits(path, limits); !kept)
    warnings.push_back(kept.error().message());
  return limits;
}

// The inputs that a model whose steps depend on data is run on, and why it needs them; "" for a
// single Program.
Result<std::string> FindSample(const PredictJob& job, const Graph& graph, PredictOptions& options) {
  EVOQ_ASSIGN(const InputContents given, ReadInputs(graph, job.inputs));
  EVOQ_ASSIGN(const InputShapes all, ShapesToMeasure(graph, options.run_shapes, given));
  EVOQ_ASSIGN(const Graph bound, Bound(graph, all, kReference));
  const std::string why = WhyNoProgram(bound).value_or("");
  if (why.empty()) return why;
  options.shapes = options.run_shapes = all;
  EVOQ_ASSIGN(options.sample, InputsToMeasure(graph, all, given));
  return why;
}

}  // namespace

Result<Predicted> Predict(const PredictJob& job, const Follow& follow) {
  if (IsEtmFile(job.model))
    return Fail(ErrorCode::kUsage, "{} is compiled already; predict reads the .onnx", job.model);
  if (job.batch < 0) return Fail(ErrorCode::kUsage, "--batch {}: expected at least 0", job.batch);
  EVOQ_TRY(CheckThreads(job.threads));
  EVOQ_TRY(CheckSizes(job.shapes));
  EVOQ_TRY(follow.At("loading", 0));
  EVOQ_ASSIGN(const Graph graph, LoadOptimizedGraph(job.model));
  Predicted out;
  PredictOptions options;
  options.shapes = job.shapes;
  EVOQ_ASSIGN(options.run_shapes, WithBatch(graph, options.shapes, job.batch));
  EVOQ_TRY(follow.At("measuring the machine's limits", 0));
  EVOQ_ASSIGN(options.limits, FindOrMeasure(job, out.warnings));
  if (job.check && !IsaSupported(options.limits.isa))
    return Fail(ErrorCode::kUsage, "--check measures on this machine, which lacks {} of {}",
                IsaName(options.limits.isa), job.limits);
  Graph bound = graph;
  if (!options.shapes.empty()) EVOQ_TRY(BindShapes(bound, options.shapes));
  options.float_weight_bytes = FloatWeightBytes(bound);
  EVOQ_ASSIGN(const std::string why, FindSample(job, graph, options));
  options.schemes = job.schemes;
  if (!job.ranges.empty()) {
    EVOQ_ASSIGN(options.ranges, LoadRanges(job.ranges));
  }
  options.check = job.check;
  options.progress = follow.Stage("predicting");
  EVOQ_ASSIGN(out.forecast, WithContext(Predict(graph, job.model, options), job.model));
  out.forecast.in_partitions = why;
  return out;
}

Told Tell(const Predicted& predicted) {
  Told told{ToJson(predicted.forecast), PrintableLines(ToText(predicted.forecast)), {}};
  for (const std::string& warning : predicted.warnings) told.log.push_back("warning: " + warning);
  return told;
}

}  // namespace evoq
