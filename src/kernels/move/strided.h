// Copying from a strided view: what Slice, Expand, Tile and Split are.
#pragma once

#include <vector>

#include "kernels/kernel.h"

namespace evoq {

// y, row-major over `sizes`, takes x[offset + sum of index * stride]; strides in elements, 0 and
// negative ones allowed.
struct StridedView {
  std::vector<int64_t> sizes, strides;
  int64_t offset = 0;
};

// Copies elements of `element` bytes from input 0 to output 0.
BoundKernel BindStrided(StridedView view, int64_t element, const BindOptions& options);

}  // namespace evoq
