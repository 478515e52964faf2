// The closed loop of a deployment in one go: baseline, analysis, optimization, validation.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/tune.h"
#include "profile/compare.h"
#include "profile/measure.h"
#include "workflow/advice.h"
#include "workflow/diff.h"
#include "workflow/follow.h"
#include "workflow/optimize.h"
#include "workflow/throughput.h"
#include "workflow/told.h"

namespace evoq {

struct TuneLoopJob {
  std::string model, output;  // an .onnx or what is read as one; the .etm to write
  std::string report;         // an HTML file to write; "": none
  InputShapes shapes;         // of free inputs, to measure at and to plan for
  PassChoice passes;          // which run
  // "latency", "balanced", or "throughput": also look for the batch, streams and threads that do
  // the most in a second. Kept in the file (graph/run_choices.h).
  std::string strategy = "latency";
  // Samples that the outputs are held to the baseline's on; none: 4 made-up ones.
  ProbeOptions probe;
  double min_sqnr_db = 60;  // what each output must keep, signal to noise
  int threads = 0;
  double duration_s = 20;  // of measuring, without tuning and the look for streams, about
};

struct TunedLoop {
  std::string model, output, report;
  // What was measured of each stage beside the one before: "graph" beside "baseline", then
  // "operators" beside "graph".
  size_t steps_before = 0, steps_after = 0;
  int64_t arena_before = 0, arena_after = 0;
  std::vector<PassRun> passes;  // of the graph stage
  Comparison graph, operators;
  TuneReport tuning;
  bool keeps_tuning = false;  // where it is not slower
  std::vector<ThroughputTrial> trials;
  std::vector<StepTime> slowest;  // of the optimized model, at most 5
  std::vector<Advice> advice;
  // Validation: the written file beside the baseline.
  Comparison whole;
  Diffed outputs;
};

// The baseline is the model as it is (--opt-level 0). Nothing is written where the outputs fail
// validation: kConditionFailed. Errors: also those of compiling, runs and files; kUsage for a
// strategy that there is not.
Result<TunedLoop> TuneLoop(const TuneLoopJob& job, const Follow& follow = {});
Told Tell(const TunedLoop& tuned);

}  // namespace evoq
