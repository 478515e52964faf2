// You et al., "Large Batch Optimization for Deep Learning" (2020): AdamW's step for each parameter,
//   r = m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + epsilon) + decay w,
// in the length of the parameter itself: w <- w - rate |w| / |r| r; the factor is 1 where one of
// the lengths is 0.
#include <cmath>

#include "train/lanes.h"
#include "train/optimizer.h"

namespace evoq {
namespace {

void Update(const OptimizerStep& s) {
  const auto step = static_cast<double>(s.step);
  const auto first = static_cast<float>(1 / (1 - std::pow(s.momentum, step)));
  const auto root = static_cast<float>(1 / std::sqrt(1 - std::pow(s.beta2, step)));
  float *const m = s.slots[0], *const v = s.slots[1];
  for (int64_t i = 0; i < s.n; ++i) {
    m[i] = s.momentum * m[i] + (1 - s.momentum) * s.g[i];
    v[i] = s.beta2 * v[i] + (1 - s.beta2) * s.g[i] * s.g[i];
  }
  const auto r = [&](int64_t i) {
    return m[i] * first / (std::sqrt(v[i]) * root + s.epsilon) + s.decay * s.w[i];
  };
  const auto length = [&](const auto& value) {
    return std::sqrt(SumInLanes(s.n, [&](int64_t i) {
      const double x = value(i);
      return x * x;
    }));
  };
  const double own = length([&](int64_t i) { return s.w[i]; }), change = length(r);
  const auto rate = static_cast<float>(s.rate * (own > 0 && change > 0 ? own / change : 1));
  for (int64_t i = 0; i < s.n; ++i) s.w[i] -= rate * r(i);
}

}  // namespace

extern const OptimizerDef kOptimizerLamb = {
    .name = "lamb",
    .doc = "AdamW's step in the length of each parameter, for large batches.",
    .slots = 2,
    .second_moment = true,
    .update = Update,
};

}  // namespace evoq
