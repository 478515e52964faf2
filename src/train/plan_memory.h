// Where the gradients of a plan's values lie.
#pragma once

#include <algorithm>

#include "base/math.h"
#include "train/plan.h"

namespace evoq {

// What so many floats take.
inline int64_t AlignedFloats(int64_t floats) {
  constexpr int64_t kAligned = 16;
  return RoundUp(std::max<int64_t>(floats, 1), kAligned);
}

// Gradients of values, each of which has an offset of its own, move to where others lay before. A
// gradient lives from the backward of the value's last reader (of the scores, from the loss on) to
// that of its producer; those whose lives do not meet share memory, and TrainingStep::fresh says
// where each life begins.
void ShareGradients(TrainingPlan& plan);

}  // namespace evoq
