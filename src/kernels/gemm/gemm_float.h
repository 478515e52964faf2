// Floating-point matrix multiplication for MatMul, Conv and ConvTranspose alike: blocks, threads
// and what is left of the end of a tile, around the micro-kernels of gemm_float_tile.h.
//
//   y[m, n] = round(activation(bias[n] + sum_{t, k} A(m, t)[k] . B[t * depth + k, n]
//                              + residual[m, n]))
//
// over units along K, each a float32 or a pair of bfloat16; y is float32 (not rounded) or bfloat16.
// A is never copied as a whole: a row source names, for each row m and tap t, the address of
// `depth` consecutive units (an indirection; a plain matrix has one tap). B is packed in panels of
// 16 columns, [panel][K][16] (pack_f32.h, pack_bf16.h). The order of k is fixed, so that results do
// not depend on the number of threads or on the blocking.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/isa.h"
#include "kernels/activation.h"
#include "kernels/gemm/curves_f32.h"
#include "kernels/gemm/gemm_float_tile.h"
#include "kernels/isa_table.h"
#include "kernels/kernel.h"

namespace evoq {

inline constexpr int64_t kMaxTapsF32 = 64;  // of one segment
inline constexpr int64_t kMaxDepthF32 =
    1024;  // taps * depth of one segment, unless the matrix has few rows
inline constexpr int64_t kSumsFloats = 48 << 10;  // that wait on the stack of a task
// Rows that are copied, because they are no whole units in memory: units from one to the next.
inline constexpr int64_t kRowCopyUnits = kMaxDepthF32 + kPanelF32;
// Rows that kernels widen: of a tile, and the pairs of a segment where there are many rows. Half of
// the room for copies holds what they are widened to, so that copies are left as many rows.
inline constexpr int64_t kMaxWideRows = kMaxTileRowsF32 / 2;
inline constexpr int64_t kMaxWidePairs = kMaxDepthF32 / 2;
inline constexpr int64_t kWideFloats = kMaxWideRows * kRowCopyUnits;
static_assert(kMaxWideRows * (2 * kMaxWidePairs + kPanelF32) <= kWideFloats);

// The micro-kernels of an instruction set, by kind of unit.
inline constexpr IsaRow<GemmKernels> kGemmRowsF32[] = {
#if defined(__x86_64__)
    {.needs = Isa::kAvx512, .table = &kGemmKernelsF32Avx512},
    {.needs = Isa::kAvx2, .table = &kGemmKernelsF32Avx2},
#elif defined(__aarch64__)
    {.needs = Isa::kNeon, .table = &kGemmKernelsF32Neon},
#endif
    {.needs = Isa::kScalar, .table = &kGemmKernelsF32Scalar}};
inline constexpr IsaRow<GemmKernels> kGemmRowsBf16[] = {
#if defined(__x86_64__)
    {.needs = Isa::kAmx, .table = &kGemmKernelsBf16Amx},
    {.needs = Isa::kAvx512Bf16, .table = &kGemmKernelsBf16Avx512},
    {.needs = Isa::kAmxSoftware, .table = &kGemmKernelsBf16AmxSoftware},
    {.needs = Isa::kAvx512, .table = &kGemmKernelsBf16WideAvx512},
    {.needs = Isa::kAvx2, .table = &kGemmKernelsBf16Avx2},
#elif defined(__aarch64__)
    {.needs = Isa::kNeonBf16, .table = &kGemmKernelsBf16Neon},
#endif
    {.needs = Isa::kScalar, .table = &kGemmKernelsBf16Scalar}};
inline constexpr IsaRow<PairLayout> kPairLayoutRows[] = {
#if defined(__x86_64__)
    {.needs = Isa::kAvx512, .table = &kPairLayoutAvx512},
    {.needs = Isa::kAvx2, .table = &kPairLayoutAvx2},
#endif
    {.needs = Isa::kScalar, .table = &kPairLayoutScalar}};
inline const GemmKernels& GemmKernelsForF32(Isa isa) { return *RowFor(kGemmRowsF32, isa).table; }
inline const PairLayout& PairLayoutFor(Isa isa) { return *RowFor(kPairLayoutRows, isa).table; }

// A part of K that is summed in one go: taps [tap, tap + taps), of each the k in [k, k + depth).
struct GemmSegment {
  int64_t tap, taps;
  int64_t k, depth;
};

// The rows of one tile for one segment; the fields are those of GemmTile.
struct GemmRows {
  const float* rows[kMaxTapsF32 * kMaxTileRowsF32];
  int64_t row_stride;  // 0 or kMaxTileRowsF32
  GemmTap taps[kMaxTapsF32];
  int64_t tap_count, depth;
  int64_t row_offset[kMaxTileRowsF32];
  // What the following rows read, where all of it lies right behind these rows, else null; a tile
  // fetches it in steps of so many units per k.
  const float* next = nullptr;
  int64_t next_step = 0;
  // Room for rows that are no whole units in memory: kRowCopyUnits for each.
  float* copy = nullptr;
};

// Fills `tile` for rows [first, first + count) and one segment. `source` is the caller's own state.
using FillGemmRows = void (*)(const void* source, int64_t first, int count,
                              const GemmSegment& segment, GemmRows& tile);

// What a product reads and writes.
struct GemmTypes {
  IsaRow<GemmKernels> kernels;  // by kind of unit and instruction set
  bool y_bf16 = false, residual_bf16 = false;
  bool copied = false;  // the source copies its rows, so that no segment is longer than the copy
  bool writes_bf16 = true;                                           // what the tiles can do
  void (*narrow)(const float* x, uint16_t* y, int64_t n) = nullptr;  // to bfloat16; with y_bf16
  void (*widen)(const uint16_t* x, float* y, int64_t n) = nullptr;   // with GemmKernels::widens
};
inline GemmTypes GemmTypesF32(Isa isa) {
  return {.kernels = RowFor(kGemmRowsF32, isa), .writes_bf16 = false};
}

// What stays the same from run to run.
struct GemmPlan {
  GemmTypes types;
  Activation activation;
  // Applied to finished rows in the L1 cache when the activation is not piecewise linear; else
  // null.
  CurveF32 curve = nullptr;
  int64_t rows = 0;
  int64_t b_step = kPanelF32;  // units between rows of B
  int64_t panel_stride = 0;    // units between panels of B
  int64_t k_stride =
      0;  // units of B per tap where taps follow each other in B; 0: nothing is fetched ahead
  bool walks = false;  // as walk.h says
  std::vector<GemmSegment> segments;
  int tile_rows = 1;  // the most of a tile
  int64_t tiles = 0;  // row tiles, of nearly equal height in GemmKernels::row_step rows
  int64_t row_blocks = 1, column_blocks = 1;
  int panels = 1;              // of a register tile
  int64_t group_panels = 1;    // panels whose B stays in the L2 cache
  int64_t grain = 1;           // tasks that one thread takes at once
  std::vector<int32_t> lanes;  // of lane tiles; else empty

  const GemmKernels& kernels() const { return *types.kernels.table; }
  // Tasks of one job.
  int64_t tasks() const { return row_blocks * column_blocks; }
  // Sums wait to be rounded: for a function that bfloat16 results would be too coarse for, or
  // because tiles do not round.
  bool late() const { return types.y_bf16 && (curve != nullptr || !types.writes_bf16); }
  KernelPlan Describe() const;
};

// One matrix product. Pointers to columns are to column 0, also where column_begin > 0.
struct GemmJob {
  const void* source;
  FillGemmRows fill;
  const float* b;  // panel 0
  int64_t column_begin, column_end;
  void* y;
  const float* bias;       // may be null
  const void* residual;    // may be null; same offsets as y
  int32_t lane_words = 0;  // of lane tiles
};

// In units.
struct GemmSizes {
  int64_t rows, columns;  // of one job
  int64_t taps, depth;
  int64_t panel_stride;
  int64_t row_bytes;          // distance of neighbouring rows of A
  int64_t jobs = 1;           // jobs that run side by side
  bool taps_in_order = true;  // B[panel] holds the K of this product and nothing else
  int64_t lane_columns = 0;  // not 0: a panel holds groups of so many columns, each with a depth of
                             // its own (lane tiles)
};

// A computed b is packed only for more rows of a than these: for fewer, that costs more than it
// saves.
inline constexpr int64_t kInPlaceRows = 8;

// Panels that a thread packs at once, each of so many elements.
constexpr int64_t PackGrain(int64_t panel_elements) {
  return std::max<int64_t>(1, (64 << 10) / (panel_elements + 1));
}

// The row source of a matrix of float32: row r is a + r * a_stride, its output y + r * y_stride.
struct DenseRowsF32 {
  const float* a;
  int64_t a_stride, y_stride, b_step;

  static void Fill(const void* source, int64_t first, int count, const GemmSegment& segment,
                   GemmRows& tile);
};

// Whether groups of this depth and so many columns can share a panel of float32 lane tiles.
bool FitsLanesF32(int64_t depth, int64_t columns, Isa isa);

GemmPlan PlanGemm(const GemmSizes& sizes, const GemmTypes& types, const Activation& activation,
                  const BindOptions& options);

// Computes task `task` of plan.tasks() of one job.
void RunGemmTask(const GemmPlan& plan, const GemmJob& job, int64_t task);

}  // namespace evoq
