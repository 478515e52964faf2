// A model as .etm without a change of precision.
#pragma once

#include <optional>
#include <string>

#include "engine/tune.h"
#include "workflow/deployment.h"
#include "workflow/follow.h"
#include "workflow/told.h"

namespace evoq {

struct CompileJob {
  std::string model, output;  // an .onnx, or an .etm to be tuned; the .etm to write
  InputShapes shapes;         // of free inputs to plan for; the model stays free. Empty: those
                              // that the model's file asks for (kShapes), all of them
  InputShapes fixed;          // sizes that are fixed for good; -1 stays free
  bool tune = false;          // measure each step's choices (docs/tuning.md)
  PassChoice passes;          // which run
  std::optional<Deployment> deployment;  // as of OptimizeJob; not of an .etm
  int threads = 0;                       // of tuning
};

struct Compiled {
  std::string model, output;
  int64_t output_bytes = 0, float_weight_bytes = 0;
  size_t steps = 0;
  size_t plans = 0;         // sets of sizes
  std::string why_no_plan;  // "": there is one
  std::optional<TuneReport> tuning;
};

// Errors: kUsage for an .etm that is not to be tuned, or whose sizes are to be fixed; those of
// import, compilation and files.
Result<Compiled> Compile(const CompileJob& job, const Follow& follow = {});
Told Tell(const Compiled& compiled);

}  // namespace evoq
