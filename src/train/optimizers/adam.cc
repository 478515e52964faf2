// Kingma and Ba, "Adam: A Method for Stochastic Optimization" (2015):
//   m <- beta1 m + (1 - beta1) g;  v <- beta2 v + (1 - beta2) g^2
//   w <- w - rate m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + epsilon)
// Weight decay: adam adds decay w to g; adamw takes rate decay w from w itself (Loshchilov and
// Hutter, "Decoupled Weight Decay Regularization", 2019).
#include <cmath>

#include "train/optimizer.h"

namespace evoq {
namespace {

template <bool kDecoupled>
void Update(const OptimizerStep& s) {
  const auto step = static_cast<double>(s.step);
  const double first = 1 - std::pow(s.momentum, step), second = 1 - std::pow(s.beta2, step);
  const auto rate = static_cast<float>(s.rate / first);
  const auto root = static_cast<float>(1 / std::sqrt(second));
  const float kept = kDecoupled ? 1 - s.rate * s.decay : 1;
  const float added = kDecoupled ? 0 : s.decay;
  const float beta1 = s.momentum, beta2 = s.beta2;
  float *const m = s.slots[0], *const v = s.slots[1];
  for (int64_t i = 0; i < s.n; ++i) {
    const float g = s.g[i] + added * s.w[i];
    m[i] = beta1 * m[i] + (1 - beta1) * g;
    v[i] = beta2 * v[i] + (1 - beta2) * g * g;
    s.w[i] = s.w[i] * kept - rate * m[i] / (std::sqrt(v[i]) * root + s.epsilon);
  }
}

}  // namespace

extern const OptimizerDef kOptimizerAdam, kOptimizerAdamW;
const OptimizerDef kOptimizerAdam = {
    .name = "adam",
    .doc = "Adaptive moments; weight decay through the gradient.",
    .slots = 2,
    .second_moment = true,
    .update = Update<false>,
};
const OptimizerDef kOptimizerAdamW = {
    .name = "adamw",
    .doc = "Adaptive moments; weight decay beside the gradient.",
    .slots = 2,
    .second_moment = true,
    .update = Update<true>,
};

}  // namespace evoq
