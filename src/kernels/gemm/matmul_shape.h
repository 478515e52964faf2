// What a floating-point MatMul call computes, read from its shapes: one product, or a batch of
// them.
#pragma once

#include <optional>
#include <vector>

#include "kernels/kernel.h"

namespace evoq {

// One product of a batch: indices of its matrices in a and b. y's are in order.
struct MatMulPair {
  int64_t a, b;
};

// y[i] = a[batch[i].a] b[batch[i].b], each [m, k] by [k, n].
struct MatMulShape {
  int64_t m = 1, n = 1, k = 1;
  int64_t b_count = 1;
  std::vector<MatMulPair> batch;
};

// Reads the shapes of a MatMul call with static shapes, or says what is wrong with them: ONNX's
// broadcasting, a bias of n elements, a residual of y's shape. Where there is one matrix b, all
// rows of a are one product.
std::optional<Reason> ReadMatMulShape(const KernelCall& call, MatMulShape& shape);

// For kernels that multiply the data as it is: why not, where it has to be rounded first
// (blocks/block_data.h).
std::optional<Reason> RejectDataBlock(const KernelCall& call);

}  // namespace evoq
