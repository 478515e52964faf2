// Exact products of two matrices of bytes, on the micro-kernels of the integer engine
// (kernels/gemm/int8_block.h).
#pragma once

#include "base/isa.h"
#include "products/workspace.h"

namespace evoq {

// Bytes that are uint8 or int8, each less `zero`.
struct ByteOperand {
  Strided<uint8_t> bytes;
  bool is_signed;
  int32_t zero;
};

// b [k, n] as the micro-kernels read it.
struct PackedInt8 {
  AlignedBuffer panels;  // [ceil(n / 16)][ceil(k / 4)][16][4], int8
  AlignedBuffer sums;    // int32, of each column of the panels
  int32_t zero = 0;      // of the packed bytes
};

// c[i, j] = sum over l of (a[i, l] - a_zero) (b[l, j] - b_zero), to which c[i, j] comes with
// `accumulate`: modulo 2^32. c[i, j] is c[i * c_stride + j]. m, n > 0, k >= 0.
struct ProductInt8 {
  int64_t m, n, k;
  ByteOperand a, b;
  bool accumulate;
  int32_t* c;
  int64_t c_stride;
  const PackedInt8* packed = nullptr;  // not null: of b's k and n, in its place
};

// Both throw std::bad_alloc before anything is written.
PackedInt8 Pack(const ByteOperand& b, int64_t k, int64_t n, Isa isa, Workspace& workspace);
void Multiply(const ProductInt8& product, Isa isa, Workspace& workspace);

}  // namespace evoq
