// Matrices of float8 with scales, as language models come in them.
#pragma once

#include <string>

#include "llm/stored_tensor.h"

namespace evoq {

// The weight that is values * scales, float32, which holds it exactly but for the rounding of the
// product: `values` float8e4m3fn or float8e5m2 [outputs, inputs]; `scales` float32, float16 or
// bfloat16, or uint8, the exponents of powers of two plus 127: one for all, one for each output
// ([outputs] or [outputs, 1]) or one for each block of block_outputs x block_inputs, whose last
// ones may be shorter. `name` is of the values, for messages. Errors: kInvalidInput for other types
// and sizes.
Result<StoredTensor> Float8Matrix(const StoredTensor& values, const StoredTensor& scales,
                                  int64_t block_outputs, int64_t block_inputs,
                                  const std::string& name);

}  // namespace evoq
