// With target q: the loss is the mean over j of abs(scores[j] - q[j]).
#include <cmath>

#include "train/loss.h"

namespace evoq {
namespace {

double Sample(std::span<const float> scores, const SampleTarget& target, float factor,
              float* gradient) {
  const auto count = static_cast<int64_t>(scores.size());
  double sum = 0;
  for (int64_t j = 0; j < count; ++j) {
    const double off = scores[j] - target.of(j, count);
    sum += std::fabs(off);
    const double sign = off > 0 ? 1 : off < 0 ? -1 : 0;
    gradient[j] = static_cast<float>(sign / static_cast<double>(count) * factor);
  }
  return sum / static_cast<double>(count);
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
