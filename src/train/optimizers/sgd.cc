// Gradient descent with momentum: with g' = g + decay w,
//   v <- momentum v + g';  w <- w - rate v               (Polyak 1964)
//   v <- momentum v + g';  w <- w - rate (g' + momentum v)   (Nesterov's, in the form of Sutskever
//   et al., "On the Importance of Initialization and Momentum in Deep Learning", 2013)
#include "train/optimizer.h"

namespace evoq {
namespace {

template <bool kNesterov>
void Update(const OptimizerStep& s) {
  float* const v = s.slots[0];
  for (int64_t i = 0; i < s.n; ++i) {
    const float g = s.g[i] + s.decay * s.w[i];
    v[i] = s.momentum * v[i] + g;
    s.w[i] -= s.rate * (kNesterov ? g + s.momentum * v[i] : v[i]);
  }
}

}  // namespace

extern const OptimizerDef kOptimizerSgd, kOptimizerNesterov;
const OptimizerDef kOptimizerSgd = {
    .name = "sgd",
    .doc = "Stochastic gradient descent with momentum.",
    .slots = 1,
    .second_moment = false,
    .update = Update<false>,
};
const OptimizerDef kOptimizerNesterov = {
    .name = "nesterov",
    .doc = "Stochastic gradient descent with Nesterov's momentum.",
    .slots = 1,
    .second_moment = false,
    .update = Update<true>,
};

}  // namespace evoq
