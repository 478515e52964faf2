// What inference and evaluation of Transpose share.
#pragma once

#include <vector>

#include "ops/util.h"

namespace evoq {

// The permutation, reversed axes by default.
Result<std::vector<int64_t>> TransposePermutation(const Node& node, int rank);

}  // namespace evoq
