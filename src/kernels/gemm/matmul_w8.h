// MatMul of a few float32 rows by weights that are stored as 8-bit integers and stay so in memory:
// bound by the bytes of the weights, it is up to four times faster than float32. Weights become
// float32 in registers.
//
//   y[m, n] = activation(bias[n] + sum over blocks of scale[block, n] * sum_{k in block} a[m, k] *
//   (q[k, n] - zero[n])
//             + residual[m, n])
//
// in float32, k in order within a block, blocks in order. Without blocks along K there is one.
#pragma once

#include <cstdint>

#include "kernels/isa_table.h"

namespace evoq {

inline constexpr int kW8Columns = 16;  // of a panel
inline constexpr int kW8MaxRows = 16;  // of a

struct W8Args {
  int64_t rows, columns, depth;
  int64_t block;          // of K; depth when there is one
  const uint8_t* panels;  // [columns / 16][depth][16], int8 or uint8
  bool is_signed;
  const int32_t* zeros;  // per column, padded to panels; null when all are zero
  const float* scales;   // [depth / block][columns padded to panels]
};

// Computes columns of panels [begin, end) of y without activation. bias and residual may be null.
struct W8Table {
  void (*panels)(const W8Args& args, const float* a, const float* bias, const float* residual,
                 float* y, int64_t begin, int64_t end);
};
EVOQ_ISA_TABLE(W8Table)

}  // namespace evoq
