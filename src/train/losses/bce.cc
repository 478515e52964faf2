// With p = sigmoid(scores) and target q, a probability for each output: the loss is the mean over
// j of -q[j] log p[j] - (1 - q[j]) log(1 - p[j]), which is log(1 + exp(s)) - q s of a score s,
// computed as max(s, 0) + log(1 + exp(-abs(s))) - q s. Its derivative by s is p - q.
#include <algorithm>
#include <cmath>

#include "train/losses/mean.h"

namespace evoq {
namespace {

double Sample(std::span<const float> scores, const SampleTarget& target, float factor,
              float* gradient) {
  return MeanOfOutputs(scores, target, factor, gradient, [](double s, double q) -> OutputLoss {
    const double small = std::exp(-std::fabs(s));
    const double p = s >= 0 ? 1 / (1 + small) : small / (1 + small);
    return {std::max(s, 0.0) + std::log1p(small) - q * s, p - q};
  });
}

}  // namespace

extern const LossDef kLossBce = {
    .name = "bce",
    .doc = "The binary cross entropy of each output's sigmoid: several labels may hold at once.",
    .last = "Sigmoid",
    .real = true,
    .sample = Sample,
};

}  // namespace evoq
