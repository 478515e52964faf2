// Sparse constants: the elements that are there, and where they belong.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "tflite/schema_generated.h"

namespace evoq::tflite {

// Where element i of a sparse constant of these sizes belongs in the dense one. Axes come in
// traversal order, those of the tensor and then blocks, each of which divides an axis; an axis has
// all of its indices or lists some. Errors: kInvalidInput for an order that is none, sizes that do
// not fit, segments that do not grow or end elsewhere than the indices, indices out of range;
// kTooLarge.
Result<std::vector<int64_t>> DensePlaces(const fb::sparse::Sparsity& sparsity,
                                         std::span<const int64_t> sizes);

}  // namespace evoq::tflite
