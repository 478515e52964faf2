// Runs of one model beside each other, each with an executor, buffers and threads of its own.
#pragma once

#include <vector>

#include "profile/measure.h"

namespace evoq {

struct StreamTimes {
  std::vector<RunTimes> streams;
  // The runs of all of them together.
  RunTimes all() const;
};

// Measures `streams` streams, 1 or more, at the same time: `first` on the caller's thread, others,
// which run what `first` runs, on threads of their own. `options` may have a meter and progress
// where there is one stream. Errors: those of runs and of making executors.
Result<StreamTimes> MeasureStreams(Runnable& first, RunBuffers& buffers, int streams,
                                   const MeasureOptions& options);

}  // namespace evoq
