// Index inputs, and outputs whose size comes from a model.
#pragma once

#include <vector>

#include "reference/util.h"

namespace evoq {

// The elements of index input i, normalized against an axis of `size`.
Result<std::vector<int64_t>> IndicesInput(const EvalArgs& args, size_t i, int64_t size);

// AllocateOutput for an output that may be far larger than the inputs, because its size is data of
// the model (Expand, Tile, Range, ...). Errors: kTooLarge above 2^31 bytes.
Result<Tensor> AllocateGrown(const TensorType& type);

}  // namespace evoq
