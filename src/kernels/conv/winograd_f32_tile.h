// The transforms of Winograd's convolution F(m x m, 3 x 3), m = 2 or 4: plain data only, because it
// is included by files that are compiled for one instruction set.
//
// With n = m + 2 and the points 0, p_1, ..., p_{m}, infinity (0, 1, -1 for m = 2; 0, a, -a, b, -b
// with a = 5/8 and b = 3/2 for m = 4, whose products are exact and whose rounding errors are about
// half of those of 1 and 2):
//   y (m x m) = A^T [ sum_c (G g_c G^T) * (B^T d_c B) ] A        * element by element, d_c (n x n)
//   input pixels row i of A^T: p_j^i              (and 1 at infinity for i = m - 1) row i of G: 1,
//   p_i, p_i^2 over prod_{j != i} (p_i - p_j)     (0, 0, 1 at infinity) row i of B^T: the
//   coefficients of prod_{j != i} (x - p_j)      (prod_j (x - p_j) at infinity)
#pragma once

#include <cstdint>

#include "kernels/bounds.h"
#include "kernels/isa_table.h"

namespace evoq {

inline constexpr int kMaxWinogradSize = 6;  // n for m = 4

// Part of one tile's output: columns [0, columns) of its first `lines` x `pixels` pixels.
struct WinogradOutputF32 {
  const float* product;  // [position][column], columns filled up to 16
  int64_t position_stride;
  int64_t columns;
  int lines, pixels;  // at most m each
  void* y;            // the tile's first pixel, column 0
  int64_t pixel_stride, line_stride;
  const float* bias;                           // may be null
  const void* residual;                        // may be null; strides of y
  bool y_bf16 = false, residual_bf16 = false;  // else float32; of functions that take bfloat16
  OutputBounds bounds;
};

struct WinogradFnsF32 {
  // v[position * position_stride + c] = (B^T d_c B)[position], pixels: n x n addresses of
  // `channels` floats. Writes whole groups of 16 channels.
  void (*input)(const float* const* pixels, int64_t channels, int64_t position_stride, float* v);
  // The same of bfloat16; null where no function takes it.
  void (*input_bf16)(const uint16_t* const* pixels, int64_t channels, int64_t position_stride,
                     float* v);
  // y[i, j, column] = activation((A^T product A)[i, j] + bias[column] + residual).
  void (*output)(const WinogradOutputF32& output);
  // u[position * position_stride + i] = (G g G^T)[position], for 16 columns i; g[tap * tap_stride +
  // i]. In double.
  void (*weights)(const float* g, int64_t tap_stride, int64_t position_stride, float* u);
};

struct WinogradTable {
  WinogradFnsF32 two, four;  // m
};
EVOQ_ISA_TABLE(WinogradTable)

}  // namespace evoq
