// Losses that are the mean over the outputs of what each has for itself.
#pragma once

#include "train/loss.h"

namespace evoq {

// An output's loss and its derivative by the score.
struct OutputLoss {
  double loss, slope;
};

// LossDef::sample of of(score, target), which gives an OutputLoss.
template <typename Of>
double MeanOfOutputs(std::span<const float> scores, const SampleTarget& target, float factor,
                     float* gradient, const Of& of) {
  const auto count = static_cast<int64_t>(scores.size());
  const auto outputs = static_cast<double>(count);
  double sum = 0;
  for (int64_t j = 0; j < count; ++j) {
    const OutputLoss output = of(static_cast<double>(scores[j]), target.of(j, count));
    sum += output.loss;
    gradient[j] = static_cast<float>(output.slope / outputs * factor);
  }
  return sum / outputs;
}

}  // namespace evoq
