// With p = softmax(scores) and target q: the loss is -sum over j of q[j] log p[j], its derivative
// by score j p[j] - q[j].
#include <algorithm>
#include <cmath>

#include "kernels/math/math.h"
#include "train/loss.h"

namespace evoq {
namespace {

double Sample(std::span<const float> scores, const SampleTarget& wanted, float factor,
              float* gradient) {
  const auto classes = static_cast<int64_t>(scores.size());
  const float largest = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (int64_t j = 0; j < classes; ++j) {
    gradient[j] = ExpF(scores[j] - largest);
    sum += gradient[j];
  }
  const double log_sum = std::log(sum);
  double loss = 0;
  for (int64_t j = 0; j < classes; ++j) {
    const double target = wanted.of(j, classes);
    loss -= target * (static_cast<double>(scores[j]) - largest - log_sum);
    gradient[j] = static_cast<float>((gradient[j] / sum - target) * factor);
  }
  return loss;
}

}  // namespace

extern const LossDef kLossCrossEntropy = {
    .name = "cross-entropy",
    .doc = "The negative logarithm of the label's probability by softmax.",
    .last = "Softmax",
    .real = false,
    .sample = Sample,
};

}  // namespace evoq
