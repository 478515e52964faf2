// Float32 matrix multiplication for MatMul, Conv and ConvTranspose alike: blocks, threads and the
// epilogue around the micro-kernels of gemm_f32_tile.h.
//
//   y[m, n] = activation(bias[n] + sum_{t, k} A(m, t)[k] * B[t * depth + k, n] + residual[m, n])
//
// A is never copied as a whole: a row source names, for each row m and tap t, the address of
// `depth` consecutive floats (an indirection; a plain matrix has one tap). B is packed in panels of
// 16 columns, [panel][K][16] (pack_f32.h). The order of k is fixed, so that results do not depend
// on the number of threads or on the blocking.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/isa.h"
#include "kernels/activation.h"
#include "kernels/gemm/curves_f32.h"
#include "kernels/gemm/gemm_f32_tile.h"
#include "kernels/isa_table.h"

namespace evoq {

inline constexpr int64_t kMaxTapsF32 = 64;  // of one segment
inline constexpr int64_t kMaxDepthF32 =
    1024;  // taps * depth of one segment, unless the matrix has few rows

// The micro-kernels of an instruction set.
inline constexpr IsaRow<GemmKernelsF32> kGemmRowsF32[] = {
#if defined(__x86_64__)
    {Isa::kAvx512, &kGemmKernelsF32Avx512},
    {Isa::kAvx2, &kGemmKernelsF32Avx2},
#endif
    {Isa::kScalar, &kGemmKernelsF32Scalar}};
inline const GemmKernelsF32& GemmKernelsForF32(Isa isa) { return *RowFor(kGemmRowsF32, isa).table; }

// A part of K that is summed in one go: taps [tap, tap + taps), of each the k in [k, k + depth).
struct SegmentF32 {
  int64_t tap, taps;
  int64_t k, depth;
};

// The rows of one tile for one segment; the fields are those of GemmTileF32.
struct TileRowsF32 {
  const float* rows[kMaxTapsF32 * kMaxTileRowsF32];
  int64_t row_stride;  // 0 or kMaxTileRowsF32
  TapF32 taps[kMaxTapsF32];
  int64_t tap_count, depth;
  int64_t row_offset[kMaxTileRowsF32];
  // What the following rows read, where all of it lies right behind these rows, else null; a tile
  // fetches it in steps of so many floats per k.
  const float* next = nullptr;
  int64_t next_step = 0;
};

// Fills `tile` for rows [first, first + count) and one segment. `source` is the caller's own state.
using FillRowsF32 = void (*)(const void* source, int64_t first, int count,
                             const SegmentF32& segment, TileRowsF32& tile);

// What stays the same from run to run.
struct GemmPlanF32 {
  const GemmKernelsF32* kernels = nullptr;
  Activation activation;
  // Applied to finished rows in the L1 cache when the activation is not piecewise linear; else
  // null.
  CurveF32 curve = nullptr;
  int64_t rows = 0;
  int64_t b_step = kPanelF32;  // floats between rows of B
  int64_t panel_stride = 0;    // floats between panels of B
  int64_t k_stride =
      0;  // floats of B per tap where taps follow each other in B; 0: nothing is fetched ahead
  std::vector<SegmentF32> segments;
  int64_t tiles = 0;  // row tiles, of nearly equal height
  int64_t row_blocks = 1, column_blocks = 1;
  int panels = 1;              // of a register tile
  int64_t group_panels = 1;    // panels whose B stays in the L2 cache
  int64_t grain = 1;           // tasks that one thread takes at once
  std::vector<int32_t> lanes;  // of lane tiles; else empty

  // Tasks of one job.
  int64_t tasks() const { return row_blocks * column_blocks; }
};

// One matrix product. Pointers to columns are to column 0, also where column_begin > 0.
struct GemmJobF32 {
  const void* source;
  FillRowsF32 fill;
  const float* b;  // panel 0
  int64_t column_begin, column_end;
  float* y;
  const float* bias;       // may be null
  const float* residual;   // may be null; same offsets as y
  int32_t lane_words = 0;  // of lane tiles
};

struct GemmSizesF32 {
  int64_t rows, columns;  // of one job
  int64_t taps, depth;
  int64_t panel_stride;
  int64_t row_bytes;          // distance of neighbouring rows of A
  int64_t jobs = 1;           // jobs that run side by side
  bool taps_in_order = true;  // B[panel] holds the K of this product and nothing else
  int64_t lane_columns = 0;  // not 0: a panel holds groups of so many columns, each with a depth of
                             // its own (lane tiles)
};

// The row source of a matrix: row r is a + r * depth, its output y + r * columns.
struct DenseRowsF32 {
  const float* a;
  int64_t depth, columns, b_step;

  static void Fill(const void* source, int64_t first, int count, const SegmentF32& segment,
                   TileRowsF32& tile);
};

// Whether groups of this depth and so many columns can share a panel of lane tiles.
bool FitsLanesF32(int64_t depth, int64_t columns, Isa isa);

GemmPlanF32 PlanGemmF32(const GemmSizesF32& sizes, const Activation& activation, Isa isa,
                        int threads);

// Computes task `task` of plan.tasks() of one job.
void RunGemmTaskF32(const GemmPlanF32& plan, const GemmJobF32& job, int64_t task);

}  // namespace evoq
