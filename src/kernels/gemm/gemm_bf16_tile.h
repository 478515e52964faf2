// The contract of the bfloat16 micro-kernels: plain data only, because it is included by files that
// are compiled for one instruction set. A pair is two bfloat16 that are neighbours along k, 4
// bytes, and lies where the float32 kernels have one float: pointers to pairs are `const float*`,
// never read as floats, so that both share row sources and blocks.
#pragma once

#include <cstdint>

#include "kernels/gemm/gemm_f32_tile.h"

namespace evoq {

enum class TileOutputBf16 : int32_t { kSums, kFloat32, kBfloat16 };

// One register tile, R rows by P panels of 16 columns, with pairs a = (a0, a1), b = (b0, b1) and a
// . b = a0 b0 + a1 b1:
//   v[r, n] = start + sum over taps t, 0 <= k < depth of A(t, r)[k] . B(t, n / 16)[k * 16 + n % 16]
//   A(t, r) = rows[t * row_stride + r] + taps[t].a        B(t, p) = b + taps[t].b + p *
//   panel_stride start   = accumulate ? sums[r * sums_step + n] : bias == nullptr ? 0 : bias[n]
// in float32, in this order of k; AVX-512 (vdpbf16ps) takes denormal factors and results as zero.
// With `last`, v = activation(v + residual[row_offset[r] + n]). v goes to
//   kSums      sums[r * sums_step + n], all columns of the panels
//   kFloat32   y[row_offset[r] + n] as float32 for column_begin <= n < column_end
//   kBfloat16  the same rounded to bfloat16, to nearest, ties to even
struct GemmTileBf16 {
  const float* const* rows;
  int64_t row_stride;
  const TapF32* taps;
  int64_t tap_count;
  int64_t depth;  // pairs
  const float* b;
  int64_t panel_stride;
  const float* ahead;  // fetched into the L2 cache while the tile is computed: one line per pair,
  int64_t ahead_step;  // this many pairs apart
  float* sums;
  int64_t sums_step;
  void* y;
  const int64_t* row_offset;
  int64_t column_begin;
  int64_t column_end;
  const float* bias;
  const void* residual;  // null, float32 or, with residual_bf16, bfloat16
  bool residual_bf16;
  bool accumulate;
  bool last;
  TileOutputBf16 output;
  TileActivationF32 activation;
  float low;
  float high;
};

using GemmTileBf16Fn = void (*)(const GemmTileBf16& tile);

// The micro-kernels of one instruction set, of the sizes that the float32 ones of this instruction
// set have. tile[P][R] computes R rows by P panels; null where there is none.
struct GemmKernelsBf16 {
  const char* name;
  int rows, panels;
  GemmTileBf16Fn tile[kMaxTilePanelsF32 + 1][kMaxTileRowsF32 + 1];
  // y[n] = (even[n], odd[n]) for n < count, zeros up to 16; a null row is all zeros.
  void (*pair_rows)(const uint16_t* even, const uint16_t* odd, int count, float* y);
  // `runs` times n elements that lie `step` apart, to y one behind the other.
  void (*copy_runs)(const uint16_t* x, int64_t step, int64_t runs, int64_t n, uint16_t* y);
};

extern const GemmKernelsBf16 kGemmKernelsBf16Scalar;
extern const GemmKernelsBf16 kGemmKernelsBf16Avx2;
extern const GemmKernelsBf16 kGemmKernelsBf16Avx512;  // needs AVX512_BF16

}  // namespace evoq
