// The batch, streams and threads with which a model does the most in a second.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/on_progress.h"
#include "workflow/to_measure.h"

namespace evoq {

struct ThroughputSetting {
  int batch = 0;  // 0: as the model and --shape have it
  int streams = 1, threads = 1;
};

struct ThroughputTrial {
  ThroughputSetting setting;
  int64_t batch = 1;      // samples of a run
  double per_second = 0;  // samples
  double p50_ms = 0;      // of a run
};

struct ThroughputJob {
  std::string model;
  WhatToMeasure what;  // a batch that is named is kept
  int cores = 0;       // streams x threads; 0: all physical cores
  int streams = 0;     // 0: any number that divides the cores
  double each_s = 0.3;
  OnProgress progress;
};

// Measures settings that keep all cores busy: every number of streams that divides them, each with
// batches of 1, 2, 4 ... 64 where the model leaves the batch free, until larger ones have not done
// more for two in a row or the model does not run at one. In the order of measuring, at least one.
// Errors: those of loading and of running at the smallest batch; kUsage for streams that do not
// divide the cores, and for several of a model in dynamic partitions.
Result<std::vector<ThroughputTrial>> TryThroughput(const ThroughputJob& job);

// Whether a larger batch is tried behind batches with these figures: not where the last two did no
// more than the best one before them.
bool TriesLarger(std::span<const double> per_second);

// The trial that did the most.
const ThroughputTrial& Best(const std::vector<ThroughputTrial>& trials);

}  // namespace evoq
