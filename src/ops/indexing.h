// Checks of index values, ranks and sizes that come from a model.
#pragma once

#include <vector>

#include "ops/op.h"

namespace evoq {

// Ranks that a model asks for are bounded. Errors: kTooLarge above 64.
Status CheckRankLimit(int64_t rank);

// -1 -> size-1 and so on. Errors: kInvalidInput when outside [-size, size).
Result<int64_t> NormalizeIndex(int64_t index, int64_t size);

// Errors unless input i is int32 or int64.
Status CheckIndexType(const InferArgs& args, size_t i);

// Shapes of data and indices of GatherElements and ScatterElements: equal ranks, and indices no
// larger than the data on the other axes. Unknown sizes pass; they are checked again when the
// tensors are at hand.
Status CheckElementIndices(const Shape& data, const Shape& indices, int axis);

// A string attribute. Errors: kInvalidInput when it is there but of another kind.
Result<std::string> StringAttr(const Node& node, const std::string& name,
                               const std::string& fallback);

}  // namespace evoq
