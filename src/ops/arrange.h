// What inference and evaluation of OneHot and ReverseSequence share.
#pragma once

#include <vector>

#include "ops/util.h"

namespace evoq {

struct SequenceAxes {
  int batch, time;
};

Result<SequenceAxes> SequenceAxesOf(const Node& node, int rank);

// One value of a numeric tensor as int64, truncated and cut to +-2^62.
Result<std::vector<int64_t>> Truncated(const Tensor& x);

}  // namespace evoq
