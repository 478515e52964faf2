// What forward and backward read in place of the parameters that the optimizer changes.
#pragma once

#include <span>

#include "base/thread_pool.h"
#include "train/plan.h"

namespace evoq {

class ParameterForm {
 public:
  virtual ~ParameterForm() = default;

  // Called once, before all else.
  virtual Status Choose(const TrainingPlan& plan) = 0;
  // Makes `to` of the parameters `from`, place by place: the same bits for any number of threads.
  virtual Status Round(ThreadPool& pool, std::span<const float> from,
                       std::span<float> to) const = 0;
};

}  // namespace evoq
