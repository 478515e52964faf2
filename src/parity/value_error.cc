#include "parity/value_error.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/check.h"

namespace evoq {

void ValueError::Add(std::span<const float> a, std::span<const float> b) {
  EVOQ_CHECK(a.size() == b.size(), "{} elements, {}", a.size(), b.size());
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  elements_ += static_cast<int64_t>(a.size());
  for (size_t i = 0; i < a.size(); ++i) {
    const double x = a[i], y = b[i];
    const bool finite = std::isfinite(x);
    if (finite) aa_ += x * x;
    if (finite && std::isfinite(y)) {
      const double d = y - x;
      finite_aa_ += x * x;
      bb_ += y * y;
      ab_ += x * y;
      noise_ += d * d;
      sum_ += d;
      max_abs_ = std::max(max_abs_, std::fabs(d));
    } else if (x != y && !(std::isnan(x) && std::isnan(y))) {
      noise_ = max_abs_ = kInfinity;
      sum_ += y - x;
    }
  }
}

ValueError& ValueError::operator+=(const ValueError& other) {
  elements_ += other.elements_;
  aa_ += other.aa_;
  bb_ += other.bb_;
  ab_ += other.ab_;
  finite_aa_ += other.finite_aa_;
  noise_ += other.noise_;
  sum_ += other.sum_;
  max_abs_ = std::max(max_abs_, other.max_abs_);
  return *this;
}

double ValueError::sqnr_db() const {
  if (noise_ == 0) return std::numeric_limits<double>::infinity();
  return std::max(-1000.0, 10 * std::log10(aa_ / noise_));
}

double ValueError::cosine() const {
  if (finite_aa_ == 0 && bb_ == 0) return 1;
  if (finite_aa_ == 0 || bb_ == 0) return 0;
  return std::clamp(ab_ / (std::sqrt(finite_aa_) * std::sqrt(bb_)), -1.0, 1.0);
}

double ValueError::mean_error() const {
  return elements_ == 0 ? 0 : sum_ / static_cast<double>(elements_);
}

void ValueError::AddElements(std::span<const float> a, std::span<const float> b) {
  const std::vector<float> right(a.size(), 1);
  std::vector<float> same(a.size());
  for (size_t i = 0; i < a.size(); ++i) same[i] = a[i] == b[i] ? 1.0f : 0.0f;
  Add(right, same);
}

}  // namespace evoq
