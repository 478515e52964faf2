// How the learning rate changes: one row (ScheduleDef), named by one line in train/schedules.inc.
#pragma once

#include <cstdint>
#include <span>

namespace evoq {

struct ScheduleDef {
  const char* name;
  const char* doc;  // one sentence
  // The factor of the learning rate when the share `done` of the steps, in [0, 1), lies behind.
  double (*factor)(double done);
};

std::span<const ScheduleDef* const> AllSchedules();

// The learning rate of step `step` of `steps`, from 0 on: over the first `warm_up` steps it grows
// in a line to `rate` (Goyal et al., "Accurate, Large Minibatch SGD", 2017), (step + 1) / warm_up
// of it; then the schedule runs over the steps that are left.
double LearningRate(const ScheduleDef& schedule, double rate, int64_t step, int64_t steps,
                    int64_t warm_up);

}  // namespace evoq
