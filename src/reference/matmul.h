// Matrix products of integers, shared by MatMul's integer forms, and of data rounded by blocks.
#pragma once

#include <vector>

#include "reference/definition.h"
#include "reference/util.h"

namespace evoq {

// The sums of a product of integers less their zero points, modulo 2^32, laid out as the output.
Result<std::vector<uint32_t>> MatMulIntegerSums(const Tensor& a, const Tensor& b);

// MatMul with data_block (kernels/gemm/blocks/block_data.h): its exact definition, and the data as
// it is multiplied where that has none, input 0 itself without the attribute. Errors: kUnsupported
// for types that are not taken.
EvalResult EvaluateBlocks(const EvalArgs& args);
Result<Tensor> RoundedData(const EvalArgs& args);

}  // namespace evoq
