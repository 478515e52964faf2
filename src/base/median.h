#pragma once

#include <span>

namespace evoq {

// The middle value, the mean of both middle ones where their number is even, 0 of none. Reorders `values`.
double Median(std::span<double> values);

}  // namespace evoq
