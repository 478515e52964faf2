#include "workflow/benchmark.h"

#include "cli/common.h"
#include "cli/verb.h"

namespace evoq {
namespace {

VerbRun Declare(const VerbOptions& options, const CommonOptions& common) {
  auto job = std::make_shared<BenchmarkJob>();
  auto device = std::make_shared<std::string>();
  options.Add("--model", job->model, "The model: .om or .etm, or .onnx").Required();
  options.Add("--output", job->output, "The file to write, for perf_compare").Required();
  options.Add("--device", *device, "Changes nothing: evoq runs on this processor");
  options.Add("--batch", job->batch, "Samples per run, where the model leaves it free").Positive();
  options
      .Add("--streams", job->streams,
           "Runs beside each other (default: what the model's file says, else 1)")
      .InRange(1, 256);
  options.Add("--loop", job->runs, "Runs to measure at least").Positive().ShowDefault();
  options.Add("--warmup-ms", job->warmup_ms, "Time to run before measuring")
      .NonNegative()
      .ShowDefault();
  options.Add("--duration-s", job->duration_s, "Time to measure").Positive().ShowDefault();
  return [job, device, &common]() -> Result<nlohmann::json> {
    if (!device->empty())
      Log("note: --device {}: changes nothing: evoq runs on this processor", *device);
    job->threads = common.threads;
    EVOQ_ASSIGN(const Benchmarked done, Benchmark(*job, common.follow));
    return Print(Tell(done));
  };
}

}  // namespace

extern const VerbDef kVerbBenchmark = {
    .name = "benchmark",
    .doc = "Measures a model and saves the runs for perf_compare, as the Ascend tool of that name.",
    .example = "evoq benchmark --model=resnet50_optimized_om.om --device=0 --output=optimized_perf",
    .declare = Declare,
};

}  // namespace evoq
