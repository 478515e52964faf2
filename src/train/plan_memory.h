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

// Cuts the plan's steps into segments (TrainingPlan::segments), as many as leave the least memory,
// and moves what a segment's steps alone read to memory that all segments share (Chen et al.,
// "Training Deep Nets with Sublinear Memory Cost", 2016). Values have an offset of their own
// before.
void ShareValues(TrainingPlan& plan);

}  // namespace evoq
