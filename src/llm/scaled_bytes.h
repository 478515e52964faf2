// Matrices of int8 with scales, as language models come in them.
#pragma once

#include "llm/checkpoint_format.h"
#include "llm/packed_matrix.h"

namespace evoq {

// The integers `q` [outputs, inputs] with the scales STEM.name (float32, float16 or bfloat16: one
// for all, one for each output, or [outputs, groups]); zero points are 0 of bytes, else in the
// middle. Errors: kInvalidInput for scales of another type or other sizes.
Result<GroupedMatrix> ScaledRows(const CheckpointMatrix& m, const PackedNumbers& q,
                                 const char* scales);

// int8 [outputs, inputs] with such scales and, where STEM.zeros is there, int8 zero points of the
// same sizes. Errors: as above.
Result<StoredTensor> ScaledBytes(const CheckpointMatrix& m, const StoredTensor& values,
                                 const char* scales, const char* zeros, std::string format);

}  // namespace evoq
