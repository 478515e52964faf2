// MatMul of many rows by weights in a format (weights/format.h): groups of panels become float32 in
// the cache and are multiplied from there, by gemm_float.h. The bits are those of the product with
// all of b in float32, whatever the threads; of b there is never more in float32 than a group a
// thread.
#pragma once

#include "kernels/gemm/matmul_shape.h"
#include "kernels/kernel.h"

namespace evoq {

// KernelPlan::method of such a product.
inline constexpr char kUnpackingMethod[] = "unpacking";

// Whether that is better than a float32 copy of b: more of b than a core's cache holds and enough
// rows to make up for the unpacking, or more of b than any cache holds; and groups for all threads.
// `call` is one that matmul_f32 takes.
bool PaysToUnpack(const KernelCall& call, const MatMulShape& shape, const BindOptions& options);

// Of a call of which that is true.
Result<BoundKernel> BindUnpacking(const KernelCall& call, const MatMulShape& shape,
                                  const BindOptions& options);

}  // namespace evoq
