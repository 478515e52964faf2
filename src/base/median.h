#pragma once

#include <span>

namespace evoq {

// The middle value, the mean of both middle ones where their number is even, 0 of none. Reorders
// `values`.
double Median(std::span<double> values);

// Of ascending values, at least one; `percent` in [0, 100]: linear interpolation between closest
// ranks.
double Percentile(std::span<const double> sorted, double percent);

}  // namespace evoq
