// The contract of the float32 micro-kernels: plain data only, because it is included by files that
// are compiled for one instruction set, where a shared inline function must not be emitted.
#pragma once

#include <cstdint>

namespace evoq {

inline constexpr int kPanelF32 = 16;  // columns of one packed panel of B
inline constexpr int kMaxTileRowsF32 = 28;
inline constexpr int kMaxTilePanelsF32 = 4;

// Offsets, in floats, that one tap adds to the row pointers of A and to the first panel of B.
struct TapF32 {
  int64_t a;
  int64_t b;
};

enum class TileActivationF32 : int32_t {
  kNone,
  kRelu,   // max(v, 0)
  kClamp,  // min(max(v, low), high)
  kLeaky,  // v < 0 ? v * low : v
};

// One register tile, R rows by P panels of 16 columns:
//   v[r, n] = bias[n] + sum over taps t, 0 <= k < depth of A(t, r)[k] * B(t, n / 16)[k * b_step + n
//   % 16] A(t, r) = rows[t * row_stride + r] + taps[t].a        B(t, p) = b + taps[t].b + p *
//   panel_stride y       = c + row_offset[r] + n, written for column_begin <= n < column_end only
// starting from bias, in this order of k, one fused multiply-add each. With `accumulate` it starts
// from sums[r * P * 16 + n] instead. With `last`, y = activation(v + residual[row_offset[r] + n]);
// otherwise v goes to sums and y stays as it is. A null bias or residual is left out. A lane tile
// has one panel whose columns read different k, as narrow groups of a convolution do that share a
// panel: A(t, r)[lanes[n] + k] for column n.
struct GemmTileF32 {
  const float* const* rows;
  int64_t row_stride;
  const TapF32* taps;
  int64_t tap_count;
  int64_t depth;
  const float* b;
  int64_t b_step;
  int64_t panel_stride;
  const float* ahead;  // fetched into the L2 cache while the tile is computed: one line per k, two
                       // by tiles of more than 16 rows,
  int64_t ahead_step;  // this many floats apart
  float* c;
  const int64_t* row_offset;
  int64_t column_begin;
  int64_t column_end;
  const float* bias;
  const float* residual;
  bool accumulate;
  bool last;
  TileActivationF32 activation;
  float low;
  float high;
  float* sums;  // where K is cut: outputs may lie so that they evict each other from the caches
  // Of lane tiles only.
  const int32_t* lanes;  // 16 numbers
  int32_t lane_words;    // floats that may be read from A(t, r) on, 1 .. 16; lanes[n] + k is below
};

using GemmTileF32Fn = void (*)(const GemmTileF32& tile);

// The micro-kernels of one instruction set. tile[P][R] computes R rows by P panels; null where
// there is none.
struct GemmKernelsF32 {
  const char* name;
  int rows, panels;               // the tile for many rows and columns
  int few_rows, few_rows_panels;  // the tile for at most few_rows rows
  int one_panel_rows;             // the height of the tile for at most 16 columns
  GemmTileF32Fn tile[kMaxTilePanelsF32 + 1][kMaxTileRowsF32 + 1];
  int lane_rows;  // the height of the lane tile; 0: there is none
  GemmTileF32Fn lane_tile[kMaxTileRowsF32 + 1];
};

extern const GemmKernelsF32 kGemmKernelsF32Scalar;
extern const GemmKernelsF32 kGemmKernelsF32Avx2;
extern const GemmKernelsF32 kGemmKernelsF32Avx512;

}  // namespace evoq
