// Matrix products of integers, shared by MatMul's integer forms.
#pragma once

#include <vector>

#include "reference/util.h"

namespace evoq {

// The sums of a product of integers less their zero points, modulo 2^32, laid out as the output.
Result<std::vector<uint32_t>> MatMulIntegerSums(const Tensor& a, const Tensor& b);

}  // namespace evoq
