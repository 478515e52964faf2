// With target q: the loss is the mean over j of (scores[j] - q[j])^2.
#include "train/losses/mean.h"

namespace evoq {
namespace {

double Sample(std::span<const float> scores, const SampleTarget& target, float factor,
              float* gradient) {
  return MeanOfOutputs(scores, target, factor, gradient, [](double s, double q) -> OutputLoss {
    const double off = s - q;
    return {off * off, 2 * off};
  });
}

}  // namespace

extern const LossDef kLossMse = {
    .name = "mse",
    .doc = "The mean squared difference of the outputs and the target, of a label 0 and 1.",
    .last = "",
    .real = true,
    .sample = Sample,
};

}  // namespace evoq
