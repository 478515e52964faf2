// MatMul with data_block as com.microsoft's MatMulNBits, whose accuracy_level 4 rounds its data to
// int8 in blocks of the weights.
#pragma once

#include "graph/graph.h"

namespace evoq {

struct MatMulNBitsParts {
  Tensor weights, scales, zeros;  // inputs 1, 2, 3
  Attrs attrs;
};

// Errors: kUnsupported where MatMulNBits has no such weights or other blocks of the data.
Result<MatMulNBitsParts> AsMatMulNBits(const Tensor& weights, int64_t data_block);

}  // namespace evoq
