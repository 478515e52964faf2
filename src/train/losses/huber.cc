// With target q and d[j] = scores[j] - q[j]: the loss is the mean over j of d[j]^2 / 2 where
// abs(d[j]) is at most 1, else abs(d[j]) - 1/2 (Huber, "Robust Estimation of a Location Parameter",
// 1964, with delta = 1). Its derivative by d[j] is d[j], kept in [-1, 1].
#include <algorithm>
#include <cmath>

#include "train/losses/mean.h"

namespace evoq {
namespace {

double Sample(std::span<const float> scores, const SampleTarget& target, float factor,
              float* gradient) {
  return MeanOfOutputs(scores, target, factor, gradient, [](double s, double q) -> OutputLoss {
    const double off = s - q, size = std::fabs(off);
    return {size <= 1 ? off * off / 2 : size - 0.5, std::clamp(off, -1.0, 1.0)};
  });
}

}  // namespace

extern const LossDef kLossHuber = {
    .name = "huber",
    .doc = "Half the squared difference of the outputs and the target, beyond 1 the absolute one.",
    .last = "",
    .real = true,
    .sample = Sample,
};

}  // namespace evoq
