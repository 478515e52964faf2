// Matrices of float4e2m1 with scales, as language models come in them.
#pragma once

#include <string>

#include "llm/stored_tensor.h"

namespace evoq {

// The weight of `values` uint8 [outputs, inputs / 2], even inputs in the low half, with `scales`
// [outputs, groups] of float8e4m3fn, times `factor` and divided by `divisor` (NVFP4), or of uint8,
// the exponents of powers of two plus 127 (MXFP4). `stem` is for messages. Errors: kInvalidInput
// and kUnsupported for other types and sizes.
Result<StoredTensor> Float4Matrix(const StoredTensor& values, const StoredTensor& scales,
                                  float factor, float divisor, const std::string& stem);

}  // namespace evoq
