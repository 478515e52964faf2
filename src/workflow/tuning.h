// Measuring what each step does fastest on this machine (docs/tuning.md).
#pragma once

#include "engine/tune.h"
#include "workflow/follow.h"
#include "workflow/told.h"

namespace evoq {

// Tunes the model for these shapes, with the cache of all models of the user.
Result<TuneReport> Tune(Model& model, int threads, const InputShapes& shapes, const Follow& follow);
Told Tell(const TuneReport& report);

}  // namespace evoq
