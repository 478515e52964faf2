// What inference and evaluation of reductions share.
#pragma once

#include <vector>

#include "ops/util.h"

namespace evoq {

// Which axes are reduced, by axis.
Result<std::vector<bool>> ReducedAxes(const Node& node, const std::vector<int64_t>* axes, int rank);

}  // namespace evoq
