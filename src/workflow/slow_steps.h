// Steps that no kernel computes, one that is slower than float32's, or one far from the roofline.
#pragma once

#include "profile/measure.h"
#include "workflow/told.h"

namespace evoq {

// Codes: by-definition, slower-than-float, far-from-roofline (below 5% of it, for 2% of the run
// and 20 microseconds or more). The text leaves out what takes less than 0.05%, and all but the
// first 20; the JSON does not. Each with its share of the run, why it is slow and what helps, the
// slowest first; of real values only. Empty where there is none. `profile` is of `program`, run by
// `threads`.
Told SlowSteps(const Program& program, const StepProfile& profile, int threads);

}  // namespace evoq
