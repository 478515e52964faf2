// GridSample(x, grid): y[n, c, o] = x[n, c] at the place grid[n, o], whose coordinates (last axis
// first) run from -1 to 1. Samples are weighted per axis and summed in the type of x, the last axis
// inside, taps in index order.
#include "base/budget_scope.h"
#include "base/math.h"
#include "kernels/resize/grid_taps.h"
#include "reference/definition.h"
#include "reference/real.h"
#include "reference/util.h"

namespace evoq {
namespace {

// The weighted sum over axes d, d + 1, ... of a plane; `offset` counts the axes before.
template <typename T>
T Sum(const T* plane, const std::vector<GridTaps<T>>& taps, const std::vector<int64_t>& sizes,
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
  EVOQ_ASSIGN(const GridSampling sampling, GridSamplingOf(args.node.attrs));
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
  std::vector<GridTaps<T>> taps(axes);
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
