// What it costs to let scale sets follow the input (docs/adaptive.md).
#pragma once

#include "profile/measure.h"
#include "runtime/executor.h"
#include "workflow/told.h"

namespace evoq {

struct AdaptiveCost {
  double plain_ms = 0, adaptive_ms = 0;  // of a run, calm ones
  int look_every = 1;
  int64_t runs = 0;  // of each
  double overhead() const { return plain_ms > 0 ? adaptive_ms / plain_ms - 1 : 0; }
};

// Runs both in turn: the same model on the same inputs, without sets and with an adapter. One turn
// is so many runs that at least one looks.
Result<AdaptiveCost> MeasureAdaptiveCost(Runnable& plain, RunBuffers& plain_buffers,
                                         Executor& adaptive, RunBuffers& buffers,
                                         const MeasureOptions& options);
Told Tell(const AdaptiveCost& cost);

}  // namespace evoq
