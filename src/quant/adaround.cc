// AdaRound (quant/layer_rounding.h).
#include <algorithm>
#include <cmath>

#include "products/double_product.h"
#include "quant/layer_rounding.h"
#include "quant/soft_rounding.h"

namespace evoq {
namespace {

constexpr SoftSchedule kSchedule{.steps = 500};

// One weight's choice.
struct Choice {
  double v = 0, mean = 0, square = 0;  // the learned parameter, Adam's moments

  void Step(double gradient, int step) {
    constexpr double kMean = 0.9, kSquare = 0.999, kLeast = 1e-8;
    mean += (1 - kMean) * (gradient - mean);
    square += (1 - kSquare) * (gradient * gradient - square);
    const double m = mean / (1 - std::pow(kMean, step + 1)),
                 s = square / (1 - std::pow(kSquare, step + 1));
    v -= kSoftRate * m / (std::sqrt(s) + kLeast);
  }
};

}  // namespace

void AdaRound(const WeightGrid& grid, std::span<const float> w, std::span<const double> damped,
              RoundingTools tools, RoundedMatrix& rounded) {
  const LayerMatrices& m = grid.matrices();
  const double before = ResultError(grid, w, damped, rounded, tools);
  if (!(before > 0)) return;
  const auto scale = [&](size_t i) {
    const auto at = static_cast<int64_t>(i);
    return rounded.scales[at / m.columns / grid.block() * m.columns + at % m.columns];
  };
  const auto [low, high] = Around(grid, w, rounded);
  std::vector<Choice> choices(w.size());
  for (size_t i = 0; i < w.size(); ++i) choices[i].v = SoftNumber::Start(w[i] / scale(i) - low[i]);
  // f in units in which a weight's error is 1 on average.
  const double unit = static_cast<double>(w.size()) / before;
  std::vector<double> e(w.size()), he(w.size());
  for (int step = 0; step < kSchedule.steps; ++step) {
    for (size_t i = 0; i < w.size(); ++i)
      e[i] = w[i] - scale(i) * (low[i] + SoftNumber(choices[i].v).h() * (high[i] - low[i]));
    Multiply(ProductF64{.m = m.depth,
                        .n = m.columns,
                        .k = m.depth,
                        .alpha = 1,
                        .a = {damped.data(), m.depth, 1},
                        .b = {e.data(), m.columns, 1},
                        .beta = 0,
                        .c = he.data(),
                        .c_stride = m.columns},
             tools.isa, tools.workspace);
    const double beta = kSchedule.Beta(step);
    tools.workspace.pool.ParallelFor(
        static_cast<int64_t>(w.size()), 4096, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            Choice& c = choices[i];
            const SoftNumber soft(c.v);
            double gradient = -2 * unit * scale(i) * (high[i] - low[i]) * he[i];
            if (kSchedule.penalizes(step)) gradient += kSoftPenalty * soft.PenaltySlope(beta);
            c.Step(gradient * soft.slope(), step);
          }
        });
  }
  RoundedMatrix learned = rounded;
  for (size_t i = 0; i < w.size(); ++i)
    learned.numbers[i] = SoftNumber(choices[i].v).h() >= 0.5 ? high[i] : low[i];
  if (ResultError(grid, w, damped, learned, tools) < before) rounded = std::move(learned);
}

}  // namespace evoq
