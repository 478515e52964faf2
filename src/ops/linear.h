// What inference of Conv, ConvTranspose, MatMul and Gemm shares.
#pragma once

#include "ops/util.h"

namespace evoq {

// Input i is a list of 256 elements. One that is not there passes.
Status CheckTable(const InferArgs& args, size_t i);

// Checks the activation's name; bias of rank 1 with `channels` elements, float or
// int32; residual of shape `y`; with `table`, input 4 a table. Inputs that are not there pass.
Status CheckLinearExtras(const InferArgs& args, const Dim& channels, const Shape& y,
                         bool table = true);

// The stored type of y: input 0's, or the attribute output_dtype, which may make it float32 where
// input 0 is a float of 16 bits (the sums are float32 anyway).
Result<DType> LinearOutputDType(const InferArgs& args);

}  // namespace evoq
