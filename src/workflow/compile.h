// A model as .etm without a change of precision.
#pragma once

#include <optional>
#include <string>

#include "engine/tune.h"
#include "workflow/deployment.h"
#include "workflow/follow.h"
#include "workflow/suggest_gears.h"
#include "workflow/told.h"

namespace evoq {

struct CompileJob {
  std::string model, output;  // an .onnx, or an .etm to be tuned or given gears; the .etm to write
  InputShapes shapes;         // of free inputs to plan for; the model stays free. Empty: those
                              // that the model's file asks for (kShapes), all of them
  // Gears, which the file declares from now on (workflow/gears.h), or those that are suggested;
  // with neither those that the model's file declares.
  GearSizes gears;
  std::optional<SuggestJob> suggest;     // its threads are those below
  InputShapes fixed;                     // sizes that are fixed for good; -1 stays free
  bool tune = false;                     // measure each step's choices (docs/tuning.md)
  PassChoice passes;                     // which run
  std::string kv_cache;                  // of a language model (llm/cache_type.h), not of an .etm
  std::optional<Deployment> deployment;  // as of OptimizeJob; not of an .etm
  int threads = 0;                       // of tuning and suggesting
};

struct Compiled {
  std::string model, output;
  int64_t output_bytes = 0, float_weight_bytes = 0;
  size_t steps = 0;
  size_t plans = 0;                    // sets of sizes
  std::string why_no_plan;             // "": there is one
  std::optional<std::string> rounded;  // what of the weights are not the file's very ones
  std::vector<std::string> warnings;
  std::optional<TuneReport> tuning;
  std::optional<SuggestedGears> suggested;
};

// Errors: kUsage for an .etm that is neither to be tuned nor given gears, or whose sizes are to be
// fixed, and for gears beside shapes; those of
// import, compilation and files.
Result<Compiled> Compile(const CompileJob& job, const Follow& follow = {});
Told Tell(const Compiled& compiled);

}  // namespace evoq
