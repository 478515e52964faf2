// With target q: the loss is the mean over j of abs(scores[j] - q[j]).
#include <cmath>

#include "train/losses/mean.h"

namespace evoq {
namespace {

double Sample(std::span<const float> scores, const SampleTarget& target, float factor,
              float* gradient) {
  return MeanOfOutputs(scores, target, factor, gradient, [](double s, double q) -> OutputLoss {
    const double off = s - q;
    return {std::fabs(off), off > 0 ? 1.0 : off < 0 ? -1.0 : 0.0};
  });
}

}  // namespace

extern const LossDef kLossL1 = {
    .name = "l1",
    .doc = "The mean absolute difference of the outputs and the target.",
    .last = "",
    .real = true,
    .sample = Sample,
};

}  // namespace evoq
