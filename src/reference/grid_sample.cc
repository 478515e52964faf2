// GridSample(x, grid): y[n, c, o] = x[n, c] at the place grid[n, o], whose coordinates (last axis
// first) run from -1 to 1. Samples are weighted per axis and summed in the type of x, the last axis
// inside, taps in index order.
#include "ops/grid_sample.h"

#include <cmath>

#include "base/budget_scope.h"
#include "base/math.h"
#include "reference/definition.h"
#include "reference/real.h"
#include "reference/util.h"

namespace evoq {
namespace {

// `at` mirrored into [low, high] at both ends.
template <typename T>
T Reflected(T at, T low, T high) {
  const T span = high - low;
  if (span <= 0) return 0;
  const T distance = std::fabs(at - low), turns = std::floor(distance / span);
  const T rest = distance - turns * span;
  return std::fmod(turns, T{2}) == 0 ? rest + low : high - rest;
}

// The first `count` of up to four taps of one axis; an index of -1 stands for a zero.
template <typename T>
struct AxisTaps {
  int count = 1;
  int64_t index[4] = {};
  T weight[4] = {1, 0, 0, 0};
};

// `at` mirrored at both ends of an axis of n places.
template <typename T>
T Mirrored(const GridSampling& s, T at, T n) {
  return s.align_corners ? Reflected<T>(at, 0, n - 1) : Reflected<T>(at, -T{0.5}, n - T{0.5});
}

template <typename T>
int64_t Inside(const GridSampling& s, T at, int64_t size) {
  if (s.padding == GridPadding::kReflection)
    at = std::nearbyint(Mirrored(s, at, static_cast<T>(size)));
  const T last = static_cast<T>(size - 1);
  if (s.padding == GridPadding::kZeros && !(at >= 0 && at <= last)) return -1;
  return static_cast<int64_t>(std::fmin(std::fmax(at, T{0}), last));
}

template <typename T>
AxisTaps<T> TapsAt(const GridSampling& s, T coordinate, int64_t size) {
  AxisTaps<T> taps;
  const T n = static_cast<T>(size);
  T at = s.align_corners ? (coordinate + 1) / 2 * (n - 1) : ((coordinate + 1) * n - 1) / 2;
  if (s.mode == GridMode::kNearest) at = std::nearbyint(at);
  if (s.mode != GridMode::kCubic && s.padding == GridPadding::kBorder)
    at = std::fmin(std::fmax(at, T{0}), n - 1);
  if (s.mode != GridMode::kCubic && s.padding == GridPadding::kReflection) at = Mirrored(s, at, n);
  const T base = std::floor(at), t = at - base;
  if (s.mode == GridMode::kNearest) {
    taps.index[0] = Inside(s, std::nearbyint(at), size);
  } else if (s.mode == GridMode::kLinear) {
    taps.count = 2;
    for (int k = 0; k < 2; ++k) taps.index[k] = Inside(s, base + static_cast<T>(k), size);
    taps.weight[0] = 1 - t;
    taps.weight[1] = t;
  } else {
    constexpr T a = -0.75;
    taps.count = 4;
    for (int k = 0; k < 4; ++k) {
      const T d = std::fabs(static_cast<T>(k - 1) - t);
      taps.weight[k] =
          d <= 1 ? ((a + 2) * d - (a + 3)) * d * d + 1 : ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
      taps.index[k] = Inside(s, base + static_cast<T>(k - 1), size);
    }
  }
  return taps;
}

// The weighted sum over axes d, d + 1, ... of a plane; `offset` counts the axes before.
template <typename T>
T Sum(const T* plane, const std::vector<AxisTaps<T>>& taps, const std::vector<int64_t>& sizes,
      size_t d, int64_t offset) {
  if (d == taps.size()) return plane[offset];
  T sum = 0;
  for (int k = 0; k < taps[d].count; ++k) {
    if (taps[d].index[k] >= 0)
      sum +=
          taps[d].weight[k] * Sum(plane, taps, sizes, d + 1, offset * sizes[d] + taps[d].index[k]);
  }
  return sum;
}

template <typename T>
EvalResult Sampled(const EvalArgs& args) {
  const Tensor &x = args.inputs[0], &grid = args.inputs[1];
  EVOQ_ASSIGN(const GridSampling sampling, GridSamplingOf(args.node));
  EVOQ_ASSIGN(Tensor y, AllocateOutput(args.output_types[0]));
  const std::vector<int64_t> sizes = x.sizes(), in(sizes.begin() + 2, sizes.end());
  const int64_t channels = sizes[1], axes = static_cast<int64_t>(in.size());
  const int64_t in_size = CheckedProduct(in).value_or(0);
  if (in_size == 0 && y.elements() > 0)
    return InvalidInput("input 0 is {}, which has nothing to sample", x.type().ToString());
  const int64_t places = sizes[0] * channels == 0 ? 0 : y.elements() / (sizes[0] * channels);
  int64_t per_sample = 1;
  for (int64_t d = 0; d < axes && per_sample < int64_t{1} << 40; ++d)
    per_sample *= sampling.mode == GridMode::kCubic    ? 4
                  : sampling.mode == GridMode::kLinear ? 2
                                                       : 1;
  EVOQ_TRY(SpendWork({y.elements(), per_sample, axes + 1}, "the samples"));
  std::vector<AxisTaps<T>> taps(axes);
  for (int64_t n = 0; n < sizes[0]; ++n) {
    for (int64_t p = 0; p < places; ++p) {
      const T* at = grid.data<T>() + (n * places + p) * axes;
      for (int64_t d = 0; d < axes; ++d) taps[d] = TapsAt(sampling, at[axes - 1 - d], in[d]);
      for (int64_t c = 0; c < channels; ++c) {
        const int64_t plane = n * channels + c;
        y.mutable_data<T>()[plane * places + p] =
            Sum(x.data<T>() + plane * in_size, taps, in, 0, 0);
      }
    }
  }
  return One(std::move(y));
}

EvalResult Evaluate(const EvalArgs& args) {
  return EvaluateAsFloats(args, [&](auto tag) { return Sampled<decltype(tag)>(args); });
}

}  // namespace

namespace reference {

extern const Definition kGridSample = {.name = "GridSample", .evaluate = Evaluate};

}  // namespace reference
}  // namespace evoq
