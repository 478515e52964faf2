// Rounding that is learned by gradient descent (AdaRound: Nagel et al. 2020, arXiv:2004.10568): a
// number lies at h in [0, 1] between the one below and the one above, h a sigmoid of a learned v
// that is stretched to [-0.1, 1.1] and cut, and a penalty 1 - |2h - 1|^beta drives it to its ends.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>

#include "quant/weight_grid.h"

namespace evoq {

class SoftNumber {
 public:
  // The v of h, which is kept off its ends, where nothing is learned.
  static double Start(double h) {
    const double s = (std::clamp(h, 0.01, 0.99) - kLow) / (kHigh - kLow);
    return std::log(s / (1 - s));
  }

  explicit SoftNumber(double v) : stretched_(kLow + (kHigh - kLow) / (1 + std::exp(-v))) {}
  double h() const { return std::clamp(stretched_, 0.0, 1.0); }
  // dh / dv.
  double slope() const {
    const double s = (stretched_ - kLow) / (kHigh - kLow);
    return stretched_ > 0 && stretched_ < 1 ? s * (1 - s) * (kHigh - kLow) : 0;
  }
  // d penalty / dh.
  double PenaltySlope(double beta) const {
    const double x = 2 * h() - 1;
    return -2 * beta * std::pow(std::fabs(x), beta - 1) * (x < 0 ? -1 : 1);
  }

 private:
  static constexpr double kLow = -0.1, kHigh = 1.1;
  double stretched_;
};

// How a run of `steps` learns, as the paper has it: beta from 20 down to 2, after a fifth of the
// steps without a penalty.
struct SoftSchedule {
  int steps;

  bool penalizes(int step) const { return step >= steps / 5; }
  double Beta(int step) const {
    constexpr double kFirst = 20, kLast = 2;
    const int free = steps / 5;
    const double done = std::max(0.0, static_cast<double>(step - free) / (steps - free));
    return kLast + (kFirst - kLast) * 0.5 * (1 + std::cos(done * M_PI));
  }
};
// Beside an error that is 1 for each number on average, what the penalty counts, and Adam's rate.
inline constexpr double kSoftPenalty = 5, kSoftRate = 0.03;

// The numbers below and above each of `w` [depth, columns], with the scales of `rounded`; one of
// them twice where a weight lies outside all numbers.
struct NumbersAround {
  std::vector<float> low, high;
};
NumbersAround Around(const WeightGrid& grid, std::span<const float> w,
                     const RoundedMatrix& rounded);

}  // namespace evoq
