// Matrix products, shared by MatMul and its integer forms.
#pragma once

#include <span>
#include <vector>

#include "ops/util.h"

namespace evoq {

// Shape of a @ b from (symbolic) shapes. Errors: kInvalidInput where they do not fit.
Result<Shape> MatMulShape(const Shape& a, const Shape& b);
// The sums of a product of integers less their zero points, modulo 2^32, laid out as the output.
Result<std::vector<uint32_t>> MatMulIntegerSums(const Tensor& a, const Tensor& b);
// OpDef::macs of MatMul.
int64_t MatMulMacs(const Node& node, std::span<const TensorType> inputs,
                   std::span<const TensorType> outputs);

}  // namespace evoq
