// With target q: the loss is the mean over j of (scores[j] - q[j])^2.
#include "train/loss.h"

namespace evoq {
namespace {

double Sample(std::span<const float> scores, const SampleTarget& target, float factor,
              float* gradient) {
  const auto classes = static_cast<double>(scores.size());
  double sum = 0;
  for (size_t j = 0; j < scores.size(); ++j) {
    const double off =
        scores[j] - target.of(static_cast<int64_t>(j), static_cast<int64_t>(scores.size()));
    sum += off * off;
    gradient[j] = static_cast<float>(2 * off / classes * factor);
  }
  return sum / classes;
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
