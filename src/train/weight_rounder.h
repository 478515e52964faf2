// Training with the weights of a weights-only scheme: they are rounded after each step, forward and
// backward read the rounded ones, and the optimizer changes those behind them. So a gradient passes
// the rounding as if it were not there (the straight-through estimator; Bengio, Leonard, Courville,
// "Estimating or Propagating Gradients Through Stochastic Neurons", 2013), and scales and zero
// points follow the weights.
#pragma once

#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "quant/quant.h"
#include "train/parameter_form.h"

namespace evoq {

class WeightRounder : public ParameterForm {
 public:
  // `graph`: float32, as `scheme`, which needs no calibration, is given it when training is over.
  // Errors: those of the scheme.
  static Result<WeightRounder> Create(const Graph& graph, const QuantScheme& scheme,
                                      QuantizeOptions options);

  // Finds the plan's parameters that the scheme rounds. Errors: kUnsupported where there are none.
  Status Choose(const TrainingPlan& plan) override;
  // `to` becomes what the scheme makes of the parameters `from`: rounded, or as they are. The same
  // bits for any number of threads. Errors: kConditionFailed for a NaN or an infinity, which names
  // the parameter.
  Status Round(ThreadPool& pool, std::span<const float> from, std::span<float> to) const override;

 private:
  struct Chosen {
    size_t rounding;            // in roundings_
    TrainedConstant parameter;  // of the plan
  };
  std::vector<WeightRounding> roundings_;  // without values
  std::vector<Chosen> chosen_;
};

}  // namespace evoq
