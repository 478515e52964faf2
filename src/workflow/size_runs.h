// Runs of observed sizes, as a session meets them: what the model's gears serve, and what a miss
// costs.
#pragma once

#include <string>

#include "engine/size_counts.h"
#include "profile/measure.h"
#include "workflow/follow.h"
#include "workflow/told.h"

namespace evoq {

struct SizeRunsJob {
  std::string model;
  std::string file;     // of observed sizes (workflow/gears.h)
  int64_t runs = 1000;  // in an order drawn from them, the same each time
  int threads = 0;
};

struct SizeRuns {
  std::string model;
  GearReport report;
  RunTimes times;        // of whole runs, the wait for a plan included
  double ready_ms = 0;   // until the gears were prepared
  int64_t compared = 0;  // sizes, with a model that has no gears,
  int64_t equal = 0;     // of which so many gave the same bits
  int64_t arena_bytes = 0;
};

// Waits until the gears are prepared, then runs. Errors: those of the files and of runs; kUsage for
// a model that runs in dynamic partitions.
Result<SizeRuns> RunSizes(const SizeRunsJob& job, const Follow& follow);
Told Tell(const SizeRuns& runs);

}  // namespace evoq
