// Quantized weights of recurrent operators, [directions, gates * hidden, K], as the matrices that
// products of rounded data take.
#pragma once

#include <optional>

#include "tensor/tensor.h"

namespace evoq {

// The type of [K, rows of one direction], with the scales of direction `d`: one for all, one for
// each row, or one for each row and block along K. Nothing for a type that is not quantized, not
// static, has another rank, or scales along other axes.
std::optional<TensorType> DirectionType(const TensorType& weights, int64_t d);

// Rows [first, first + count) of direction `d`, transposed, of plain weights that have a
// DirectionType. Errors: kInvalidInput for weights that have none.
Result<Tensor> DirectionMatrix(const Tensor& weights, int64_t d, int64_t first, int64_t count);

}  // namespace evoq
