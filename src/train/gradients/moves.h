// Operators whose outputs are elements of their data, at places that are known before they run.
#pragma once

#include <memory>

#include "train/gradient.h"

namespace evoq {

// Run r of an output, `length` elements from r * length on, is the data from from[r] on; where that
// is negative, something else.
struct Moves {
  int64_t length = 1;
  std::shared_ptr<const std::vector<int32_t>> from;
};

// Where the elements of each output lie in input 0, as the operator's definition says: it is
// evaluated on their numbers in place of the data. Other inputs must be known; those of real
// numbers fill what is not data. Errors: kUnsupported for inputs that are not known, and for more
// elements than int32 counts; those of the definition.
Result<std::vector<Moves>> MovesOf(const GradientArgs& args);

// The gradient: elements that are not data are `fill`.
BoundGradient MovedBy(const std::vector<Moves>& outputs, float fill);

}  // namespace evoq
