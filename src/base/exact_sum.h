// A sum that does not depend on the order of its terms.
#pragma once

#include <cmath>
#include <vector>

namespace evoq {

// The exact sum of finite doubles, as parts that do not overlap (J. R. Shewchuk, "Adaptive
// Precision Floating-Point Arithmetic and Fast Robust Geometric Predicates", 1997, GROW-EXPANSION).
// Nothing is rounded as long as no partial sum exceeds the largest double.
class ExactSum {
 public:
  void Add(double x) {
    size_t kept = 0;
    for (double y : parts_) {
      if (std::fabs(x) < std::fabs(y)) std::swap(x, y);
      const double high = x + y, low = y - (high - x);
      if (low != 0) parts_[kept++] = low;
      x = high;
    }
    parts_.resize(kept);
    parts_.push_back(x);
  }

  // The sum of both.
  void Add(const ExactSum& other) {
    for (double part : other.parts_) Add(part);
  }
  // Finite doubles whose exact sum this is; Add of each to an empty sum gives it back.
  const std::vector<double>& parts() const { return parts_; }

  // The double that is nearest to the sum, ties to even.
  double Rounded() const {
    double high = 0, low = 0;
    size_t i = parts_.size();
    if (i > 0) high = parts_[--i];
    while (i > 0 && low == 0) {
      const double x = high, y = parts_[--i];
      high = x + y;
      low = y - (high - x);
    }
    // Half of the last place: what lies below says on which side.
    if (i > 0 && ((low < 0 && parts_[i - 1] < 0) || (low > 0 && parts_[i - 1] > 0))) {
      const double twice = low * 2, next = high + twice;
      if (twice == next - high) high = next;
    }
    return high;
  }

 private:
  std::vector<double> parts_;  // by growing magnitude
};

}  // namespace evoq
