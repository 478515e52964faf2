// Tiles of products whose weights are mostly zero blocks (Int8Sparse). A register holds one group
// of four channels of 8 or 16 rows, and the sums of one column of as many rows: a block's weights
// are broadcast one column after the other, so that a block costs the same whichever columns and
// channels it has. Sums are transposed at the end, and the epilogue is that of dense tiles.
//
// Included inside instruction-set files with AVX2 or better only. `Set` is what differs:
//   Vec, kUnits             a register and how many times 8 rows it holds
//   kRegisters              the most registers of rows in a tile
//   kWide                   Int8TileDef::wide_blocks
//   Zero()
//   AddFour<kCount>(acc, x, w)   acc[c][v] += products of x[v], one group, and a block's column c
//   AddAlong<kCount>(acc, x, w)  acc[v] += products of x[q * kCount + v] and the block's group q
//   Finish<kUnits>(tile, sums)   the epilogue of sums [panel][16 columns][units of 8 rows]
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/gemm/gemm_int8_sparse_tiles.h"
#include "kernels/gemm/transpose8.inl.h"

namespace evoq {
namespace {

// slab[g * units] = group g of 8 rows; of rows beyond `count` anything.
inline void GatherUnit(const uint8_t* const* rows, int count, int64_t offset, int64_t groups,
                       int64_t units, __m256i* slab) {
  const uint8_t* x[8];
  for (int r = 0; r < 8; ++r) x[r] = rows[r < count ? r : 0] + offset;
  __m256i in[8], out[8];
  for (int64_t next = 0; groups >= 8 && next < groups; next += 8) {
    const int64_t g = next + 8 <= groups ? next : groups - 8;  // the last ones may be done twice
#pragma GCC unroll 8
    for (int r = 0; r < 8; ++r)
      in[r] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x[r] + 4 * g));
    Transpose8(in, out);
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) slab[(g + i) * units] = out[i];
  }
  if (groups >= 8) return;
  const __m256i some = _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(groups)),
                                          _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
#pragma GCC unroll 8
  for (int r = 0; r < 8; ++r)
    in[r] = _mm256_maskload_epi32(reinterpret_cast<const int*>(x[r]), some);
  Transpose8(in, out);
  for (int64_t i = 0; i < groups; ++i) slab[i * units] = out[i];
}

inline void GatherSlab(const Int8Tile& tile, int units, __m256i* slab) {
  for (int64_t tap = 0; tap < tile.taps; ++tap) {
    const int64_t offset =
        tile.x_offset + (tile.tap_offsets != nullptr ? tile.tap_offsets[tap] : 0);
    const uint8_t* const* rows = tile.rows + tap * tile.row_stride;
    __m256i* const at = slab + tap * tile.groups_of_4 * units;
    for (int unit = 0; unit < units; ++unit) {
      const int first = 8 * unit < tile.row_count ? 8 * unit : 0;  // a whole unit may lie behind
      GatherUnit(rows + first, tile.row_count - first, offset, tile.groups_of_4, units, at + unit);
    }
  }
  // What the blocks of 16 channels read behind the last group, and multiply by 0.
  const int64_t groups = tile.taps * tile.groups_of_4;
  for (int64_t i = 0; i < 3 * units; ++i) slab[groups * units + i] = _mm256_setzero_si256();
}

// Four columns: sums[4][kCount registers].
template <typename Set, int kCount>
inline void LineOfFour(const Int8Sparse& sparse, int64_t line, const __m256i* slab,
                       typename Set::Vec* sums) {
  constexpr int64_t kBytes = Set::kWide ? 32 : 16;
  typename Set::Vec acc[4][kCount];
#pragma GCC unroll 4
  for (int c = 0; c < 4; ++c) {
#pragma GCC unroll 3
    for (int v = 0; v < kCount; ++v) acc[c][v] = Set::Zero();
  }
  const Int8Blocks& blocks = sparse.blocks;
  const uint16_t* group = blocks.groups + blocks.begin[line];
  const uint16_t* const end = blocks.groups + blocks.begin[line + 1];
  const int8_t* w = blocks.weights + kBytes * blocks.begin[line];
  for (; group < end; ++group, w += kBytes)
    Set::template AddFour<kCount>(acc, slab + *group * (kCount * Set::kUnits), w);
#pragma GCC unroll 4
  for (int c = 0; c < 4; ++c) {
#pragma GCC unroll 3
    for (int v = 0; v < kCount; ++v) sums[c * kCount + v] = acc[c][v];
  }
}

// One column: sums[kCount registers].
template <typename Set, int kCount>
inline void LineOfOne(const Int8Sparse& sparse, int64_t line, const __m256i* slab,
                      typename Set::Vec* sums) {
  constexpr int64_t kBytes = Set::kWide ? 32 : 16;
  typename Set::Vec acc[kCount];
#pragma GCC unroll 3
  for (int v = 0; v < kCount; ++v) acc[v] = Set::Zero();
  const Int8Blocks& blocks = sparse.blocks;
  const uint16_t* group = blocks.groups + blocks.begin[line];
  const uint16_t* const end = blocks.groups + blocks.begin[line + 1];
  const int8_t* w = blocks.weights + kBytes * blocks.begin[line];
  for (; group < end; ++group, w += kBytes)
    Set::template AddAlong<kCount>(acc, slab + *group * (kCount * Set::kUnits), w);
#pragma GCC unroll 3
  for (int v = 0; v < kCount; ++v) sums[v] = acc[v];
}

template <typename Set, int kCount>
void SparseTile(const Int8Tile& tile) {
  constexpr int kUnits = kCount * Set::kUnits;
  alignas(64) __m256i slab[(kMaxSparseGroups + 3) * kUnits];
  GatherSlab(tile, kUnits, slab);
  alignas(64) typename Set::Vec columns[4 * 16 * kCount];  // [panel][16 columns][units]
  typename Set::Vec* to = columns;
  const Int8Sparse& sparse = *tile.sparse;
  if (sparse.line_columns == 4) {
    const int64_t line = 4 * tile.sparse_panel;
    for (int64_t i = 0; i < 4 * tile.panel_count; ++i, to += 4 * kCount)
      LineOfFour<Set, kCount>(sparse, line + i, slab, to);
  } else {
    const int64_t line = 16 * tile.sparse_panel;
    for (int64_t i = 0; i < 16 * tile.panel_count; ++i, to += kCount)
      LineOfOne<Set, kCount>(sparse, line + i, slab, to);
  }
  Set::template Finish<kUnits>(tile, reinterpret_cast<const __m256i*>(columns));
}

template <typename Set>
void RunSparseTile(const Int8Tile& tile) {
  constexpr int kRows = 8 * Set::kUnits;
  if (tile.row_count <= kRows) return SparseTile<Set, 1>(tile);
  if (Set::kRegisters == 2 || tile.row_count <= 2 * kRows) return SparseTile<Set, 2>(tile);
  if constexpr (Set::kRegisters == 3) SparseTile<Set, 3>(tile);
}

template <typename Set>
constexpr Int8TileDef SparseDef(const char* name, const Int8RowTable* rows) {
  constexpr int kRows = 8 * Set::kUnits * Set::kRegisters;
  return {.name = name,
          .max_panels = 4,
          .max_rows = {0, kRows, kRows, kRows, kRows},
          .takes_lanes = false,
          .takes_range = false,
          .run = RunSparseTile<Set>,
          .rows = rows,
          .row_step = 8,
          .wide_blocks = Set::kWide,
          .most_blocks = Set::kMostBlocks,
          .most_blocks_winograd = Set::kMostBlocksWinograd,
          .long_blocks_as = Set::kLongBlocksAs,
          .turning_depth = Set::kTurningDepth};
}

}  // namespace
}  // namespace evoq
