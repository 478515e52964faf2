// Products of two computed float32 matrices that lie anywhere, on the micro-kernels of MatMul and
// Conv (kernels/gemm/gemm_float.h).
#pragma once

#include <cstdint>

#include "base/aligned.h"
#include "base/isa.h"
#include "base/thread_pool.h"

namespace evoq {

// Element (i, j) is data[i * row_stride + j * column_stride]; one of the strides is 1.
struct StridedF32 {
  const float* data;
  int64_t row_stride, column_stride;
};

// c[i, j] = alpha * sum over l of a[i, l] * b[l, j] + beta * c[i, j]; c[i, j] is c[i * c_stride +
// j]. With beta 0, c is not read. m, n > 0, k >= 0. Sums are float32, in order of l, each term a
// fused multiply-add where the instruction set has it; a or b is multiplied by alpha first.
struct ProductF32 {
  int64_t m, n, k;
  float alpha;
  StridedF32 a, b;
  float beta;
  float* c;
  int64_t c_stride;
};

// What products of one caller at a time work in.
struct ProductSpace {
  explicit ProductSpace(int threads) : pool(threads) {}

  // At least so many bytes, of any content. Throws std::bad_alloc.
  std::byte* Room(size_t bytes) {
    if (buffer.size() < bytes) buffer = AlignedBuffer(bytes);
    return buffer.data();
  }

  ThreadPool pool;
  AlignedBuffer buffer;
};

// Bits do not depend on the threads. Throws std::bad_alloc before anything is written.
void Multiply(const ProductF32& product, Isa isa, ProductSpace& space);

}  // namespace evoq
