// BatchNormalization as it is trained (Ioffe and Szegedy, "Batch Normalization", 2015): per
// channel, over the samples and positions of the whole batch, N of them,
//   mean = sum x / N, var = sum (x - mean)^2 / N, u = (x - mean) / sqrt(var + epsilon),
//   y = scale u + bias
//   dx = scale / sqrt(var + epsilon) (dy - sum dy / N - u sum(dy u) / N)
//   dscale = sum(dy u), dbias = sum dy
// and the constants mean and var follow: m <- momentum m + (1 - momentum) mean, var likewise with
// N / (N - 1) var, the estimate without bias.
#include <cmath>

#include "train/gradient.h"
#include "train/lanes.h"

namespace evoq {
namespace {

struct NormSizes {
  int64_t samples, channels, positions;
  float epsilon, momentum;
  int64_t plane(int64_t n, int64_t c) const { return (n * channels + c) * positions; }
};

// mean and 1 / sqrt(var + epsilon) of each channel.
struct Moments {
  double mean, var;
};
Moments MomentsOf(std::span<const double> totals, int64_t channels, int64_t c, double count) {
  const double mean = totals[c] / count;
  return {mean, std::max(0.0, totals[channels + c] / count - mean * mean)};
}

// `saved`: mean and inverse deviation of each channel.
void Forward(const NormSizes& s, const GradientRun& run) {
  const double count = static_cast<double>(s.samples * s.positions * run.shards);
  const std::span totals(run.totals, static_cast<size_t>(2 * s.channels));
  for (int64_t c = 0; c < s.channels; ++c) {
    const Moments moments = MomentsOf(totals, s.channels, c, count);
    run.saved[c] = static_cast<float>(moments.mean);
    run.saved[s.channels + c] = static_cast<float>(1 / std::sqrt(moments.var + s.epsilon));
  }
  for (int64_t n = 0; n < s.samples; ++n) {
    for (int64_t c = 0; c < s.channels; ++c) {
      const float mean = run.saved[c], factor = run.saved[s.channels + c] * run.x[1][c];
      const float bias = run.x[2][c];
      const float* const x = run.x[0] + s.plane(n, c);
      float* const __restrict y = run.y[0] + s.plane(n, c);
      for (int64_t i = 0; i < s.positions; ++i) y[i] = (x[i] - mean) * factor + bias;
    }
  }
}

void Backward(const NormSizes& s, const GradientRun& run) {
  const double count = static_cast<double>(s.samples * s.positions * run.shards);
  for (int64_t c = 0; c < s.channels; ++c) {
    if (run.dx[1] != nullptr) run.dx[1][c] += static_cast<float>(run.sums[s.channels + c]);
    if (run.dx[2] != nullptr) run.dx[2][c] += static_cast<float>(run.sums[c]);
  }
  if (run.dx[0] == nullptr) return;
  for (int64_t n = 0; n < s.samples; ++n) {
    for (int64_t c = 0; c < s.channels; ++c) {
      const float mean = run.saved[c], inverse = run.saved[s.channels + c];
      const float factor = inverse * run.x[1][c];
      const auto all = static_cast<float>(run.totals[c] / count);
      const auto along = static_cast<float>(run.totals[s.channels + c] / count) * inverse;
      const float *const x = run.x[0] + s.plane(n, c), *const dy = run.dy[0] + s.plane(n, c);
      float* const __restrict dx = run.dx[0] + s.plane(n, c);
      for (int64_t i = 0; i < s.positions; ++i)
        dx[i] += factor * (dy[i] - all - (x[i] - mean) * along);
    }
  }
}

// Per channel the sums of two terms of each element.
template <typename First, typename Second>
void Sums(const NormSizes& s, double* sums, const First& first, const Second& second) {
  std::fill_n(sums, 2 * s.channels, 0.0);
  for (int64_t n = 0; n < s.samples; ++n) {
    for (int64_t c = 0; c < s.channels; ++c) {
      const int64_t at = s.plane(n, c);
      sums[c] += SumInLanes(s.positions, [&](int64_t i) { return first(c, at + i); });
      sums[s.channels + c] += SumInLanes(s.positions, [&](int64_t i) { return second(c, at + i); });
    }
  }
}

void Average(const NormSizes& s, std::span<const double> totals, int64_t shards,
             std::span<float* const> averages) {
  const double count = static_cast<double>(s.samples * s.positions * shards);
  const double kept = s.momentum, unbiased = count > 1 ? count / (count - 1) : 1;
  for (int64_t c = 0; c < s.channels; ++c) {
    const Moments moments = MomentsOf(totals, s.channels, c, count);
    float &mean = averages[0][c], &var = averages[1][c];
    mean = static_cast<float>(kept * mean + (1 - kept) * moments.mean);
    var = static_cast<float>(kept * var + (1 - kept) * moments.var * unbiased);
  }
}

Result<BoundGradient> Bind(const GradientArgs& args) {
  const std::vector<int64_t> sizes = args.x[0].shape.sizes();
  NormSizes s{sizes[0], sizes[1], 1, args.node.attrs.Float("epsilon", 1e-5f),
              args.node.attrs.Float("momentum", 0.9f)};
  for (size_t d = 2; d < sizes.size(); ++d) s.positions *= sizes[d];
  BoundGradient bound;
  bound.saved = 2 * s.channels;
  bound.sums = 2 * s.channels;
  bound.averages = {3, 4};
  bound.forward_sums = [s](const GradientRun& run) {
    const auto x = [&](int64_t, int64_t i) { return static_cast<double>(run.x[0][i]); };
    Sums(s, run.sums, x, [&](int64_t c, int64_t i) { return x(c, i) * x(c, i); });
  };
  bound.forward = [s](const GradientRun& run) { Forward(s, run); };
  bound.backward_sums = [s](const GradientRun& run) {
    const auto dy = [&](int64_t, int64_t i) { return static_cast<double>(run.dy[0][i]); };
    Sums(s, run.sums, dy, [&](int64_t c, int64_t i) {
      return dy(c, i) * static_cast<double>(run.x[0][i] - run.saved[c]) * run.saved[s.channels + c];
    });
  };
  bound.backward = [s](const GradientRun& run) { Backward(s, run); };
  bound.average = [s](std::span<const double> totals, int64_t shards,
                      std::span<float* const> averages) { Average(s, totals, shards, averages); };
  return bound;
}

}  // namespace

extern const GradientDef kGradientBatchNormalization = {
    .op = "BatchNormalization", .differentiable = 0b111, .bind = Bind};

}  // namespace evoq
