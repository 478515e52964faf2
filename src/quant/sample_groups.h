// Calibration samples in groups of like ranges: what scale sets are made of (docs/adaptive.md).
#pragma once

#include <vector>

#include "quant/method.h"

namespace evoq {

// Puts each sample into one of `groups` groups, by k-means on the logarithms of how wide the ranges
// of the values of `ranges` are in it. Group 0 has the widest. The result does not depend on the
// order of the samples. Errors: kUsage where there are fewer samples than groups, or they differ in
// fewer ways; those of observing.
Result<std::vector<int>> GroupSamples(const Graph& graph, const Ranges& ranges,
                                      const MethodData& data, int groups);

}  // namespace evoq
