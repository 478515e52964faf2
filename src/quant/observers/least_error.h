// The search of observers that weigh what rounding loses against what is cut off.
#pragma once

#include "quant/observer.h"

namespace evoq {

// The range [low, high], holding 0, of the least error on the histogram's elements (taken at their
// bins' centres): step^2 / 12 inside, of 255 steps, and `cut_weight` times the squared distance
// outside. Each end is a multiple of 1/64 of what was seen.
Range LeastErrorRange(const Observed& observed, double cut_weight);

}  // namespace evoq
