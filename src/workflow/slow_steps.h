// Steps that no kernel computes, or one that is slower than float32's.
#pragma once

#include "profile/measure.h"
#include "workflow/told.h"

namespace evoq {

// Each with its share of the run, why it is slow and what helps, the slowest first; of real values
// only. Empty where there is none. `profile` is of `program`.
Told SlowSteps(const Program& program, const StepProfile& profile);

}  // namespace evoq
