// Products of float64 matrices that lie anywhere (kernels/gemm/gemm_f64.h).
#pragma once

#include "base/isa.h"
#include "products/workspace.h"

namespace evoq {

// As FloatProduct, in float64: b is multiplied by alpha first, or a where b is read in place; c by
// beta.
struct ProductF64 {
  int64_t m, n, k;
  double alpha;
  Strided<double> a, b;
  double beta;
  double* c;
  int64_t c_stride;
};

// Bits do not depend on the threads. Throws std::bad_alloc before anything is written.
void Multiply(const ProductF64& product, Isa isa, Workspace& workspace);

}  // namespace evoq
