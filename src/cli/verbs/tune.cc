#include "cli/common.h"
#include "cli/verb.h"
#include "workflow/tune_loop.h"

namespace evoq {
namespace {

using nlohmann::json;

struct Options {
  TuneLoopJob job;
  std::vector<std::string> shapes;
};

Result<json> Run(Options o, const CommonOptions& common) {
  EVOQ_ASSIGN(o.job.shapes, ParseShapes(o.shapes));
  o.job.threads = common.threads;
  EVOQ_ASSIGN(const TunedLoop tuned, TuneLoop(o.job, common.follow));
  return Print(Tell(tuned));
}

VerbRun Declare(const VerbOptions& options, const CommonOptions& common) {
  auto o = std::make_shared<Options>();
  options.Add("model", o->job.model, "MODEL.onnx").Required();
  options.Add("-o,--output", o->job.output, "The .etm to write").Required();
  options.Add("--report", o->job.report,
              "Also write the stages, and both models side by side, as one HTML file that opens "
              "offline");
  options
      .Add("--strategy", o->job.strategy,
           "throughput: also look for the batch, streams and threads (--threads in all) that "
           "process the most samples per second; kept in the file")
      .OneOf({"latency", "balanced", "throughput"})
      .ShowDefault();
  options.Add("--shape", o->shapes, "Sizes of a free input: NAME=1x3x224x224");
  options.Add("--data", o->job.probe.data,
              "Samples to hold the outputs to the baseline's on (default: 4 made-up ones)");
  options.Add("--preprocess", o->job.probe.preprocess, "How images become inputs (JSON)");
  options.Add("--limit", o->job.probe.limit, "Samples to take, evenly spread; 0: all")
      .NonNegative()
      .ShowDefault();
  options
      .Add("--min-sqnr", o->job.min_sqnr_db,
           "Signal to noise in dB that each output must keep: else exit code 1, and no file")
      .ShowDefault();
  options
      .Add("--duration-s", o->job.duration_s,
           "Time to measure, about, without tuning and the look for streams")
      .Positive()
      .ShowDefault();
  AddPassOptions(options, o->job.passes);
  return [o, &common] { return Run(*o, common); };
}

}  // namespace

extern const VerbDef kVerbTune = {
    .name = "tune",
    .doc = "Baseline, graph and operator optimization, validation: one .etm and one report.",
    .example = "evoq tune mobilenetv2.onnx -o tuned.etm --report tuned.html",
    .declare = Declare,
};

}  // namespace evoq
