#include "train/schedule.h"

namespace evoq {

#define EVOQ_ROW_TYPE ScheduleDef
#define EVOQ_ROW_FILE "train/schedules.inc"
#include "base/rows.inl.h"

std::span<const ScheduleDef* const> AllSchedules() { return kAllRows; }

double LearningRate(const ScheduleDef& schedule, double rate, int64_t step, int64_t steps,
                    int64_t warm_up) {
  if (step < warm_up) return rate * static_cast<double>(step + 1) / static_cast<double>(warm_up);
  const double left = static_cast<double>(steps - warm_up);
  return rate * schedule.factor(left > 0 ? static_cast<double>(step - warm_up) / left : 0);
}

}  // namespace evoq
