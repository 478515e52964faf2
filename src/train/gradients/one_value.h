// Gradients of functions of one value: dx = dy f'(x).
#pragma once

#include "train/gradient.h"

namespace evoq {

// f(x) is y; slope(x, y) its derivative there.
template <typename F, typename Slope>
BoundGradient OneValue(const GradientArgs& args, const F& f, const Slope& slope) {
  const int64_t n = *args.y[0].shape.elements();
  return BoundGradient{.forward =
                           [n, f](const GradientRun& run) {
                             const float* const x = run.x[0];
                             float* const __restrict y = run.y[0];
                             for (int64_t i = 0; i < n; ++i) y[i] = f(x[i]);
                           },
                       .backward =
                           [n, slope](const GradientRun& run) {
                             const float *const x = run.x[0], *const y = run.y[0];
                             const float* const dy = run.dy[0];
                             float* const __restrict dx = run.dx[0];
                             for (int64_t i = 0; i < n; ++i) dx[i] += dy[i] * slope(x[i], y[i]);
                           }};
}

}  // namespace evoq
