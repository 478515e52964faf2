// The contract of the float32 and bfloat16 micro-kernels: plain data only, because it is included
// by files that are compiled for one instruction set, where a shared inline function must not be
// emitted.
//
// Both read units of four bytes along K: a float32, or a pair of bfloat16 that are neighbours along
// K. Pointers to units are `const float*`; those to pairs are never read as floats. So both types
// share row sources, blocks, threads and the end of a tile.
#pragma once

#include <cstdint>

namespace evoq {

inline constexpr int kPanelF32 = 16;  // columns of one packed panel of B
inline constexpr int kMaxTileRowsF32 = 32;
inline constexpr int kMaxTilePanelsF32 = 4;

// Offsets, in units, that one tap adds to the row pointers of A and to the first panel of B.
struct GemmTap {
  int64_t a;
  int64_t b;
};

enum class TileActivation : int32_t {
  kNone,
  kRelu,   // max(v, 0)
  kClamp,  // min(max(v, low), high)
  kLeaky,  // v < 0 ? v * low : v
};

enum class TileOutput : int32_t { kSums, kFloat32, kBfloat16 };

// One register tile, R rows by P panels of 16 columns:
//   v[r, n] = start + sum over taps t, 0 <= k < depth of
//                 A(t, r)[k] . B(t, n / 16)[k * b_step + n % 16]
//   A(t, r) = rows[t * row_stride + r] + taps[t].a
//   B(t, p) = b + taps[t].b + p * panel_stride
//   start   = accumulate ? sums[r * sums_step + n] : bias == nullptr ? 0 : bias[n]
// in float32, in this order of k. For units of float32, a . b is one fused multiply-add; for pairs
// it is a0 b0 + a1 b1, and AVX-512 (vdpbf16ps) takes denormal factors and results as zero. AMX
// adds up the a0 b0 and the a1 b1 of 16 units apart (kernels/amx), in steps that begin with a tap.
// Rows of kernels that widen (GemmKernels::widens) hold 2 * depth float32 for each tap, the
// elements of pair k at 2 k and 2 k + 1; a0 b0 is added before a1 b1. With `last`, v = activation(v
// + residual[row_offset[r] + n]). v goes to
//   kSums      sums[r * sums_step + n], all columns of the panels
//   kFloat32   y[row_offset[r] + n] as float32 for column_begin <= n < column_end
//   kBfloat16  the same rounded to bfloat16, to nearest, ties to even
// A null bias or residual is left out. A lane tile has one panel whose columns read different k, as
// narrow groups of a convolution do that share a panel: A(t, r)[lanes[n] + k] for column n.
struct GemmTile {
  const float* const* rows;
  int64_t row_stride;
  const GemmTap* taps;
  int64_t tap_count;
  int64_t depth;
  const float* b;
  int64_t b_step;  // kPanelF32 for pairs
  int64_t panel_stride;
  const float* ahead;  // fetched into the L2 cache while the tile is computed: one line per k, two
                       // by tiles of more than 16 rows; by AVX-512's of 3 to 13 rows and several
                       // panels, as many as panels, into the L1 cache
  int64_t ahead_step;  // units from k to k
  int64_t ahead_line;  // and from line to line
  // With GemmKernels::copy_rows instead: so many lines of 64 bytes from `ahead` on and, ahead_line
  // units behind, as many of the next panel, a few beside each step.
  int64_t ahead_lines;
  float* sums;        // where K is cut: outputs may lie so that they evict each other from the
  int64_t sums_step;  // caches
  void* y;
  const int64_t* row_offset;
  int64_t column_begin;
  int64_t column_end;
  const float* bias;
  const void* residual;  // null, float32 or, with residual_bf16, bfloat16
  bool residual_bf16;
  bool accumulate;
  bool last;
  TileOutput output;
  TileActivation activation;
  float low;
  float high;
  // Of kernels with GemmKernels::copy_rows: the rows of each tap lie at one distance from each
  // other, and so does what may be read where they do not fill the last register.
  bool even;
  // Of lane tiles only.
  const int32_t* lanes;  // 16 numbers
  int32_t lane_words;    // units that may be read from A(t, r) on, 1 .. 16; lanes[n] + k is below
};

using GemmTileFn = void (*)(const GemmTile& tile);

// The micro-kernels of one instruction set for one kind of unit. tile[P][R] computes R rows by P
// panels; null where there is none.
struct GemmKernels {
  const char* name;
  int rows, panels;               // the tile for many rows and columns
  int few_rows, few_rows_panels;  // the tile for at most few_rows rows
  int one_panel_rows;             // the height of the tile for at most 16 columns
  GemmTileFn tile[kMaxTilePanelsF32 + 1][kMaxTileRowsF32 + 1];
  int lane_rows;  // the height of the lane tile; 0: there is none
  GemmTileFn lane_tile[kMaxTileRowsF32 + 1];
  // Rows are computed so many at a time: a tile of fewer costs as much. Tiles of more than one read
  // a row's lines whole.
  int row_step = 1;
  // Not null: called on the thread that runs tiles, before the first and after the last one.
  void (*begin)() = nullptr;
  void (*end)() = nullptr;
  // Not null: tiles are faster of rows that are GemmTile::even, as this makes them: all taps of
  // each of a tile's first `count` rows, one behind the other, at to + row * step.
  void (*copy_rows)(const GemmTile& tile, int count, float* to, int64_t step) = nullptr;
  // Pairs only: tiles read rows as float32, which the driver widens once for all panels.
  bool widens = false;
  // Pairs only: multiply-adds in the time of one of float32.
  int speed = 1;
  // Not null: the kernels of products of fewer rows, or of fewer units along K.
  const GemmKernels* small = nullptr;
  int64_t least_rows = 1, least_depth = 1;
};

// What lays out pairs of bfloat16.
struct PairLayout {
  // y[n] = (even[n], odd[n]) for n < count, zeros up to 16; a null row is all zeros.
  void (*pair_rows)(const uint16_t* even, const uint16_t* odd, int count, float* y);
  // `runs` times n elements that lie `step` apart, to y one behind the other.
  void (*copy_runs)(const uint16_t* x, int64_t step, int64_t runs, int64_t n, uint16_t* y);
};

extern const GemmKernels kGemmKernelsF32Scalar, kGemmKernelsBf16Scalar;
extern const PairLayout kPairLayoutScalar;
#if defined(__x86_64__)
extern const GemmKernels kGemmKernelsF32Avx2, kGemmKernelsBf16Avx2;
extern const GemmKernels kGemmKernelsF32Avx512;
extern const GemmKernels kGemmKernelsBf16WideAvx512;
extern const GemmKernels kGemmKernelsBf16Avx512;  // needs AVX512_BF16
extern const GemmKernels kGemmKernelsBf16Amx, kGemmKernelsBf16AmxSoftware;
extern const PairLayout kPairLayoutAvx2, kPairLayoutAvx512;
#elif defined(__aarch64__)
extern const GemmKernels kGemmKernelsF32Neon;
extern const GemmKernels kGemmKernelsBf16Neon;  // needs NEON_BF16
#endif

}  // namespace evoq
