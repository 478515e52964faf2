#include "quant/observers/least_error.h"

#include <algorithm>
#include <cmath>

namespace evoq {
namespace {

constexpr int kSteps = 64;  // candidates per end: multiples of 1/64 of it

double ErrorOf(const Histogram& h, double cut_weight, double low, double high) {
  const double step = (high - low) / 255;
  double error = 0;
  for (size_t i = 0; i < h.counts.size(); ++i) {
    if (h.counts[i] == 0) continue;
    const double x = h.centre(i), outside = x < low ? low - x : x > high ? x - high : 0;
    error += static_cast<double>(h.counts[i]) * (outside > 0 ? cut_weight * outside * outside
                                                 : x == 0    ? 0
                                                             : step * step / 12);
  }
  return error;
}

}  // namespace

// Shortens one end, then the other, twice: the error falls at every step.
Range LeastErrorRange(const Observed& observed, double cut_weight) {
  if (observed.histogram.counts.empty()) return observed.range;
  const double min = std::min(0.0f, observed.range.min), max = std::max(0.0f, observed.range.max);
  double low = min, high = max, least = ErrorOf(observed.histogram, cut_weight, low, high);
  for (int round = 0; round < 2; ++round) {
    for (double* end : {&high, &low}) {
      const double whole = end == &high ? max : min;
      double best = *end;
      for (int i = 1; i <= kSteps; ++i) {
        *end = whole * i / kSteps;
        const double error =
            low < high ? ErrorOf(observed.histogram, cut_weight, low, high) : INFINITY;
        if (error < least) {
          least = error;
          best = *end;
        }
      }
      *end = best;
    }
  }
  return {static_cast<float>(low), static_cast<float>(high)};
}

}  // namespace evoq
