// With p = softmax(scores) and target q: the loss is KL(q || p) = sum over j of q[j] log(q[j] /
// p[j]), its derivative by score j p[j] - q[j]. It is the cross entropy less what it is at best,
// which smoothing and mixup keep from being 0.
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
    const double q = wanted.of(j, classes);
    if (q > 0) loss += q * (std::log(q) - (static_cast<double>(scores[j]) - largest - log_sum));
    gradient[j] = static_cast<float>((gradient[j] / sum - q) * factor);
  }
  return loss;
}

}  // namespace

extern const LossDef kLossKl = {
    .name = "kl",
    .doc = "The divergence of the softmax from the target, which is 0 at best.",
    .last = "Softmax",
    .real = false,
    .sample = Sample,
};

}  // namespace evoq
