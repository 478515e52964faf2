// What inference and evaluation of Slice share.
#pragma once

#include <vector>

#include "ops/util.h"

namespace evoq {

// One axis, resolved: `count` elements from `start`, `step` apart.
struct SliceRange {
  int axis;
  int64_t start, end, step;
};

struct SliceExtent {
  int64_t start, count, step;
};

// ONNX's clamping: negative positions count from the end, then both are cut to what the step can
// reach.
SliceExtent Resolve(const SliceRange& r, int64_t size);

// Starts, ends, axes and steps as one list. Errors: lengths that differ, an axis out of range or
// named twice, a step 0.
Result<std::vector<SliceRange>> SliceRanges(const std::vector<int64_t>& starts,
                                            const std::vector<int64_t>& ends,
                                            const std::vector<int64_t>* axes,
                                            const std::vector<int64_t>* steps, int rank);

}  // namespace evoq
