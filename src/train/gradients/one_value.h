// Gradients of functions of one value: dx = dy f'(x).
#pragma once

#include <algorithm>

#include "kernels/math/unary_loops.h"
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

// Of an operator of kernels/math/unary.h, which computes y with vectors; slopes(run, x, y, n, out)
// writes n <= kSlopeBlock derivatives to `out`, and may use as many floats behind it twice.
constexpr int64_t kSlopeBlock = 1024;

template <typename Slopes>
BoundGradient InBlocks(const GradientArgs& args, const Unary& unary, const Slopes& slopes) {
  const int64_t n = *args.y[0].shape.elements();
  const auto backward = [n, slopes](const GradientRun& run) {
    float* const slope = run.Scratch(3 * kSlopeBlock);
    for (int64_t begin = 0; begin < n; begin += kSlopeBlock) {
      const int64_t count = std::min(kSlopeBlock, n - begin);
      slopes(run, run.x[0] + begin, run.y[0] + begin, count, slope);
      const float* const dy = run.dy[0] + begin;
      float* const __restrict dx = run.dx[0] + begin;
      for (int64_t i = 0; i < count; ++i) dx[i] += dy[i] * slope[i];
    }
  };
  return BoundGradient{.forward =
                           [n, unary](const GradientRun& run) {
                             UnaryTableFor(run.isa).apply(unary, run.x[0], run.y[0], n);
                           },
                       .backward = backward};
}

// The same with a derivative slope(x, y) of each value.
template <typename Slope>
BoundGradient OfKind(const GradientArgs& args, const Unary& unary, const Slope& slope) {
  return InBlocks(
      args, unary,
      [slope](const GradientRun&, const float* x, const float* y, int64_t n, float* out) {
        for (int64_t i = 0; i < n; ++i) out[i] = slope(x[i], y[i]);
      });
}

}  // namespace evoq
