// AdaRound (quant/layer_rounding.h).
#include <algorithm>
#include <cmath>

#include "products/double_product.h"
#include "quant/layer_rounding.h"

namespace evoq {
namespace {

// The paper's sigmoid is stretched to [-0.1, 1.1] and its penalty is 1 - |2h - 1|^beta, beta from
// 20 down to 2, after a fifth of the steps without one.
constexpr int kSteps = 500, kFreeSteps = kSteps / 5;
constexpr double kLow = -0.1, kHigh = 1.1, kBetaFirst = 20, kBetaLast = 2;
constexpr double kRate = 0.03, kPenalty = 5;  // of Adam; beside the error of a weight

// One weight's choice.
struct Choice {
  double v = 0, mean = 0, square = 0;  // the learned parameter, Adam's moments

  double Sigmoid() const { return 1 / (1 + std::exp(-v)); }
  double H() const { return std::clamp(Sigmoid() * (kHigh - kLow) + kLow, 0.0, 1.0); }
  // dh / dv.
  double Slope() const {
    const double s = Sigmoid(), h = s * (kHigh - kLow) + kLow;
    return h > 0 && h < 1 ? s * (1 - s) * (kHigh - kLow) : 0;
  }
  void Start(double h) {
    const double s = (std::clamp(h, 0.01, 0.99) - kLow) / (kHigh - kLow);
    v = std::log(s / (1 - s));
  }
  void Step(double gradient, int step) {
    constexpr double kMean = 0.9, kSquare = 0.999, kLeast = 1e-8;
    mean += (1 - kMean) * (gradient - mean);
    square += (1 - kSquare) * (gradient * gradient - square);
    const double m = mean / (1 - std::pow(kMean, step + 1)),
                 s = square / (1 - std::pow(kSquare, step + 1));
    v -= kRate * m / (std::sqrt(s) + kLeast);
  }
};

// d penalty / dh, without its factor.
double PenaltySlope(double h, double beta) {
  const double x = 2 * h - 1;
  return -2 * beta * std::pow(std::fabs(x), beta - 1) * (x < 0 ? -1 : 1);
}

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
  // The numbers around each weight: none above or below where it lies outside all numbers.
  std::vector<float> low(w.size()), high(w.size());
  for (int64_t k = 0; k < m.depth; ++k) {
    const float* s = &rounded.scales[k / grid.block() * m.columns];
    const float* z = &rounded.zeros[k / grid.block() * m.columns];
    std::vector<float> v(static_cast<size_t>(m.columns));
    for (const auto& [to, round] : {std::pair(&low, -1), std::pair(&high, 1)}) {
      for (int64_t n = 0; n < m.columns; ++n) {
        const float number = w[k * m.columns + n] / s[n];
        v[n] = (round < 0 ? std::floor(number) : std::floor(number) + 1) * s[n];
      }
      grid.Nearest(v.data(), s, z, m.columns, &(*to)[k * m.columns]);
    }
  }
  std::vector<Choice> choices(w.size());
  for (size_t i = 0; i < w.size(); ++i) choices[i].Start(w[i] / scale(i) - low[i]);
  // f in units in which a weight's error is 1 on average.
  const double unit = static_cast<double>(w.size()) / before;
  std::vector<double> e(w.size()), he(w.size());
  for (int step = 0; step < kSteps; ++step) {
    for (size_t i = 0; i < w.size(); ++i)
      e[i] = w[i] - scale(i) * (low[i] + choices[i].H() * (high[i] - low[i]));
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
    const double done =
        std::max(0.0, static_cast<double>(step - kFreeSteps) / (kSteps - kFreeSteps));
    const double beta = kBetaLast + (kBetaFirst - kBetaLast) * 0.5 * (1 + std::cos(done * M_PI));
    tools.workspace.pool.ParallelFor(
        static_cast<int64_t>(w.size()), 4096, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            Choice& c = choices[i];
            double gradient = -2 * unit * scale(i) * (high[i] - low[i]) * he[i];
            if (step >= kFreeSteps) gradient += kPenalty * PenaltySlope(c.H(), beta);
            c.Step(gradient * c.Slope(), step);
          }
        });
  }
  RoundedMatrix learned = rounded;
  for (size_t i = 0; i < w.size(); ++i)
    learned.numbers[i] = choices[i].H() >= 0.5 ? high[i] : low[i];
  if (ResultError(grid, w, damped, learned, tools) < before) rounded = std::move(learned);
}

}  // namespace evoq
