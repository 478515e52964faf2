// What the most urgent of several streams feels of the others.
#pragma once

#include <vector>

#include "profile/measure.h"
#include "workflow/to_measure.h"
#include "workflow/told.h"

namespace evoq {

struct PriorityJob {
  std::vector<int> priorities;  // of two streams or more
  bool share_arenas = true;
  int threads = 0;        // of each run; 0: all physical cores
  double duration_s = 3;  // of both ways of running together
};

struct StreamPriorities {
  std::string model;
  int threads = 1, at_once = 1;
  int64_t arena_bytes = 0;  // of all streams
  struct OfStream {
    int priority = 0;
    RunTimes beside;  // the others
  };
  std::vector<OfStream> streams;
  size_t urgent = 0;  // the first of the most urgent ones
  RunTimes alone;     // of the urgent one
};

// Runs the streams in rounds: the urgent one alone, then all beside each other. The urgent one
// rests twice as long as each of its runs took; the others run without a pause. Latencies are from
// the request to its result. Errors: kUsage for fewer than two streams and for a model in dynamic
// partitions; those of runs.
Result<StreamPriorities> MeasurePriorities(const std::string& path, const WhatToMeasure& what,
                                           const PriorityJob& job);

Told Tell(const StreamPriorities& measured);

}  // namespace evoq
