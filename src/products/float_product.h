// Products of float32 matrices, and of bfloat16 ones, that lie anywhere, on the micro-kernels of
// MatMul and Conv (kernels/gemm/gemm_float.h).
#pragma once

#include "base/isa.h"
#include "products/workspace.h"

namespace evoq {

// b [k, n] as the micro-kernels read it.
struct PackedFloats {
  AlignedBuffer panels;  // [ceil(n / 16)][k][16], or [ceil(n / 16)][ceil(k / 2)][16][2] of bfloat16
};

// c[i, j] = alpha * sum over l of a[i, l] * b[l, j] + beta * c[i, j]; c[i, j] is c[i * c_stride +
// j]. With beta 0, c is not read. m, n > 0, k >= 0. Sums are float32, in order of l (of pairs of l
// for bfloat16, as GemmTile says), each term a fused multiply-add but in plain C++; the sum is
// multiplied by alpha.
template <typename T>
struct FloatProduct {
  int64_t m, n, k;
  float alpha;
  Strided<T> a, b;
  float beta;
  float* c;
  int64_t c_stride;
  const PackedFloats* packed = nullptr;  // not null: of b's k and n, in its place
};
using ProductF32 = FloatProduct<float>;
using ProductBf16 = FloatProduct<uint16_t>;

// Bits do not depend on the threads. All throw std::bad_alloc before anything is written.
PackedFloats Pack(const Strided<float>& b, int64_t k, int64_t n, Isa isa, Workspace& workspace);
PackedFloats Pack(const Strided<uint16_t>& b, int64_t k, int64_t n, Isa isa, Workspace& workspace);
void Multiply(const ProductF32& product, Isa isa, Workspace& workspace);
void Multiply(const ProductBf16& product, Isa isa, Workspace& workspace);

}  // namespace evoq
