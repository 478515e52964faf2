// Matrix products, shared by MatMul and its integer forms.
#pragma once

#include <span>
#include <vector>

#include "base/math.h"
#include "ops/util.h"

namespace evoq {

// Shape of a @ b from (symbolic) shapes. Errors: kInvalidInput where they do not fit.
Result<Shape> MatMulShape(const Shape& a, const Shape& b);
// OpDef::macs of MatMul.
int64_t MatMulMacs(const Node& node, std::span<const TensorType> inputs,
                   std::span<const TensorType> outputs);

// y[batch, m, n] = sum_k a[batch_a, m, k] * b[batch_b, k, n].
struct MatMulGeometry {
  std::vector<int64_t> batch, a_strides, b_strides;  // strides in matrices, 0 where broadcast
  int64_t m = 1, k = 1, n = 1;
  int64_t batches() const { return CheckedProduct(batch).value_or(0); }
};

MatMulGeometry MatMulGeometryOf(const Shape& a, const Shape& b);

}  // namespace evoq
