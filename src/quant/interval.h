// How well the samples tell a range, and whether there were enough of them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "quant/quant.h"

namespace evoq {

// Into how many groups of samples a range's interval is worked out from.
inline constexpr int kIntervalGroups = 8;

// Half of the 95% confidence interval of a figure, by the figures without each of g groups of the
// samples in turn (delete-a-group jackknife; J. Shao and D. Tu, "The Jackknife and Bootstrap",
// 1995, section 2.3):
//   t(0.975, g - 1) sqrt((g - 1) / g sum_i (without[i] - mean)^2).
// An estimate: of extremes (minmax) it is too small where one sample stands far out, for no
// resampling sees beyond what was seen; any next sample lies outside with a probability of at most
// 2 / (n + 1). Negative with fewer than 2 groups: not known.
double JackknifeError(std::span<const double> without);

// The groups 0 .. min(kIntervalGroups, n) - 1 of n samples by hashes of their contents: of equal
// sizes, and the same whatever order the samples come in.
std::vector<int> GroupsByContent(std::span<const uint64_t> hashes);

// When calibration may stop: half of the interval of each end is at most kEnoughShare of the
// range's width for kEnoughValues of the values, after at least kFewestSamples samples.
inline constexpr double kEnoughShare = 0.1;
inline constexpr double kEnoughValues = 0.75;
inline constexpr int kFewestSamples = 16;

// How many values are known that well; those without a width count for neither.
struct Known {
  int64_t values = 0, well = 0;
  void Add(const Range& range);
  bool enough() const { return static_cast<double>(well) >= kEnoughValues * values; }
  // "24 samples were enough: ...", or that all were used and how well they tell the ranges.
  std::string Told(int64_t samples, bool stopped) const;
};

}  // namespace evoq
