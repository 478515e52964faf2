// Lin et al., "Focal Loss for Dense Object Detection" (2017), with gamma = 2: for p =
// softmax(scores) and target q the loss is -sum over j of q[j] (1 - p[j])^2 log p[j], so that
// samples which are right already count less. With h[j] = 2 (1 - p[j]) p[j] log p[j] - (1 -
// p[j])^2, its derivative by score k is q[k] h[k] - p[k] sum over j of q[j] h[j].
#include <algorithm>
#include <cmath>
#include <vector>

#include "train/loss.h"

namespace evoq {
namespace {

double Sample(std::span<const float> scores, const SampleTarget& wanted, float factor,
              float* gradient) {
  const auto classes = static_cast<int64_t>(scores.size());
  const double largest = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (const float s : scores) sum += std::exp(s - largest);
  const double log_sum = std::log(sum);
  const auto log_p = [&](int64_t j) { return scores[j] - largest - log_sum; };
  double loss = 0, all = 0;
  std::vector<double> own(scores.size(), 0.0);
  for (int64_t j = 0; j < classes; ++j) {
    const double q = wanted.of(j, classes);
    if (q == 0) continue;
    const double p = std::exp(log_p(j)), off = 1 - p;
    loss -= q * off * off * log_p(j);
    own[j] = q * (2 * off * p * log_p(j) - off * off);
    all += own[j];
  }
  for (int64_t j = 0; j < classes; ++j)
    gradient[j] = static_cast<float>((own[j] - std::exp(log_p(j)) * all) * factor);
  return loss;
}

}  // namespace

extern const LossDef kLossFocal = {
    .name = "focal",
    .doc = "Cross entropy that weighs samples by how wrong they are, (1 - p)^2.",
    .last = "Softmax",
    .real = false,
    .sample = Sample,
};

}  // namespace evoq
