// The micro-kernel contract of all integer linear kernels: one tile of output rows x 16-column
// panels, with its epilogue. Plain data only: this header is what instruction-set files include.
//
//   acc[r][n] = sum over taps t, groups of four channels q, i < 4:
//               rows[t * row_stride + r][x_offset + tap_offsets[t] + 4 q + i] * weights[n / 16][t *
//               groups_of_4 + q][n % 16][i]
//   acc[r][n] += bias[n] - w_zero[n] * row_sums[r]                       modulo 2^32
//   v          = float32(acc) * multiplier[n] [+ offset[n]] [+ residual] [slopes]
//   y[r][n]    = acc                                                      kInt32
//   y[r][n]    = v, or clamp(v, low, high) where `clamp`                  kFloat32
//   y[r][n]    = low byte of round_half_even(clamp(v, low, high)) + y_zero   kInt8; `clamp` is true
//
// Each operation on v rounds once; clamp(v, low, high) takes max(v, low) first. This is
// kernels/requant.h: `low` and `high` hold the activation and the saturation, both measured before
// the zero point is added, and are integers for kInt8. With `lanes` (narrow groups whose columns
// share a panel), column n reads 4 (lanes[n] + q) + i instead of 4 q + i.
#pragma once

#include <cstddef>
#include <cstdint>

namespace evoq {

enum class Int8Output : int32_t { kInt8, kFloat32, kInt32 };
enum class Int8Residual : int32_t { kNone, kUint8, kInt8, kFloat32 };

// What a group of four weights of a column lacks (Int8TileDef::bounded).
struct Int8Excess {
  int32_t group;  // counted through all taps
  int8_t delta[4];
};

// Blocks of weights that are not all zero, 16 weights each, in the order of the lines: a line is
// four columns or one, and a block of it four columns x one group of four channels, [column][4], or
// one column x four groups that follow one another, [group][4].
struct Int8Blocks {
  const uint32_t* begin;   // per line and one more: those of line i are begin[i] .. begin[i + 1]
  const uint16_t* groups;  // of each block: its first group, counted through all taps
  // 64-byte aligned: 16 bytes of each block, or, of tiles with Int8TileDef::wide_blocks, 16 int16,
  // of each four weights 0, 2, 1, 3.
  const int8_t* weights;
};

// All weights of a product that are not zero (docs/pruning.md).
struct Int8Sparse {
  int line_columns;  // 4 or 1
  Int8Blocks blocks;
};

struct Int8Tile {
  // Activations, uint8. Four bytes are read at a time, so each row has 4 * groups_of_4 readable
  // bytes from x_offset on.
  const uint8_t* const* rows;
  int64_t row_stride;
  int64_t taps;
  int64_t groups_of_4;
  int64_t x_offset;
  const int64_t*
      tap_offsets;  // null: all 0. Not null: row_stride is 0, one pointer of a row serves all taps
  const int32_t*
      lanes;  // 16 numbers, or null; one panel, Int8TileDef::takes_lanes and no w_zero only
  int32_t lane_words;  // 4-byte words that may be read from x_offset on, 1 .. 16
  // Weights, int8: panel p starts at weights + p * panel_bytes and is 64-byte aligned.
  const int8_t* weights;
  int64_t panel_bytes;
  // With tiles of Int8TileDef::bounded, not null: to the weights of column n of panel p come the
  // excess[i].delta, excess_begin[17 p + n] <= i < excess_begin[17 p + n + 1].
  const Int8Excess* excess;
  const uint32_t* excess_begin;
  // Of tiles that Int8TileDef::sparse names, which read it in place of `weights`: all weights, and
  // the panels that lie before the tile's first one.
  const Int8Sparse* sparse;
  int64_t sparse_panel;
  int64_t prefetch;       // a tile may fetch the panel at weights + prefetch into the L2 cache; 0:
                          // nothing to fetch
  int64_t prefetch_line;  // and what lies so many bytes behind, if not 0: other panels' part. Of a
                          // padded tile: so many bytes from there on
  void* task;             // the room that Int8TileDef::begin was given

  // Of tiles with Int8TileDef::copy_rows: one tap, no offsets; each register's rows,
  // Int8TileDef::row_step, lie at one distance from each other, and 64 bytes of them may be read
  // where fewer are left, and rows behind the last one. There may be any number of rows.
  bool padded;
  int32_t row_count;    // 1 .. Int8TileDef::max_rows[panel_count]
  int32_t panel_count;  // 1 .. Int8TileDef::max_panels
  // Which columns of the first and of the last panel are stored (bit n = column n); the others are
  // stored whole. With one panel both apply.
  uint32_t first_mask;
  uint32_t last_mask;

  // Per column, from column 0 of the first panel, valid for whole panels.
  const int32_t* bias;
  const float* multiplier;
  const float* offset;      // null: none; with kFloat32 only
  const int32_t* w_zero;    // null: all zero
  const int32_t* row_sums;  // per row; with w_zero only

  // Not null, with Int8TileDef::takes_range and kFloat32 only: 16 numbers below 0 and then 16
  // above, widened by what is stored.
  float* range;

  // Column 0 of the first panel of row 0; strides in bytes.
  uint8_t* y;
  int64_t y_stride;
  const uint8_t* residual;
  int64_t residual_stride;
  Int8Output output;
  Int8Residual residual_type;
  float residual_multiplier;  // v += float32(residual - residual_zero) * residual_multiplier; a
                              // float32 one is added as is
  int32_t residual_zero;
  int32_t y_zero;
  uint8_t y_flip;  // kInt8: 0x80 when y is int8, 0 when it is uint8
  bool small;      // |v| < 2^30 for any sum: v may be narrowed with saturation before it is clamped
  bool clamp;
  const float* slopes;  // per column: v < 0 ? v * slope : v, before the clamp; nullptr: none
  float low;
  float high;
};

// The input rows of `count` neighbouring output pixels of a line (kernels/gemm/int8_rows.h).
struct Int8PointerRun {
  const uint8_t* x;
  const uint8_t* padding;
  const int64_t* outer;
  const int64_t* inner;
  int64_t outer_taps, inner_taps, width, tile, count;
  const uint8_t** to;
};

// What stands around the tiles.
struct Int8RowTable {
  // acc[i] = sum over t < taps: x[t][i] * w[t * count + i], i < count. |w| <= 255.
  void (*depthwise)(int32_t* acc, const uint8_t* const* x, const int16_t* w, int64_t taps,
                    int64_t count);
  // sums[i] = sum over taps t and c < bytes of rows[t * row_stride + i][offset + c], i < count.
  void (*sum_rows)(const uint8_t* const* rows, int64_t row_stride, int64_t taps, int64_t offset,
                   int64_t bytes, int64_t count, int32_t* sums);
  // to[(a * inner_taps + b) * tile + i] = x + outer[a] + inner[b * width + i], or `padding` where
  // either is negative.
  void (*pointers)(const Int8PointerRun& run);
  // Pixels of three bytes become four: the bytes xor `flip`, then 0. Reads no byte behind the last
  // pixel.
  void (*expand3)(const uint8_t* from, uint8_t* to, int64_t pixels, uint8_t flip);
};

extern const Int8RowTable kInt8RowsScalar;
#if defined(__x86_64__)
extern const Int8RowTable kInt8RowsAvx2, kInt8RowsAvx512;
#endif

// What one instruction set offers.
struct Int8TileDef {
  const char* name;
  int max_panels;   // 1, 2 or 4: tiles of fewer panels (1, 2) run too
  int max_rows[5];  // by panel count
  bool takes_lanes;
  bool takes_range;
  void (*run)(const Int8Tile& tile);
  const Int8RowTable* rows;
  // Not null: tiles of the same sizes that are faster for weights of which no pair is unsafe (the
  // others go to the excess), for up to kMaxBoundedGroups groups of all taps.
  const Int8TileDef* bounded;
  // Pairs of 16 columns x 4 weights, bit i for the weights 2 i and 2 i + 1, whose products with two
  // bytes may leave int16.
  uint32_t (*unsafe_pairs)(const int8_t* w);
  // Rows are computed so many at a time: a tile of fewer costs as much.
  int row_step = 1;
  // Not null: tiles are faster where each register's rows lie at one distance from each other, as
  // this makes them: all taps of a row, one behind the other, at to + row * stride.
  void (*copy_rows)(const Int8Tile& tile, uint8_t* to, int64_t stride) = nullptr;
  // Not null: called on the thread that runs tiles, before the first and after the last one of the
  // same taps and groups_of_4, with kInt8TaskBytes of room, 64-byte aligned (Int8TileTask,
  // kernels/gemm/int8_block.h). The tiles are copies of what `begin` was given. What a tile writes
  // may be written later, until `flush` or `end`, and what it reads at its end (residual, row_sums
  // and what goes with columns) be read then.
  void (*begin)(Int8Tile& tile, std::byte* room) = nullptr;
  void (*flush)(std::byte* room) = nullptr;
  void (*end)(std::byte* room) = nullptr;
  // Not null: the tiles of products of fewer rows or fewer bytes along K, and of those with lanes
  // (TilesFor, kernels/gemm/int8_block.h).
  const Int8TileDef* small = nullptr;
  int64_t least_rows = 1, least_depth = 1;
  // Not null: tiles that read Int8Tile::sparse, for up to kMaxSparseGroups groups of all taps, no
  // lanes.
  const Int8TileDef* sparse = nullptr;
  // Of sparse tiles: whether they read weights as int16.
  bool wide_blocks = false;
  // Of sparse tiles: the largest share of blocks that are not zero, in hundredths, for which they
  // are faster than dense ones in deep products, and than int8_winograd.h's (bench/pruning.py
  // measures both); as what share of blocks of 4x4 one of blocks of 1x16 counts, in hundredths; and
  // the depth of dense products that takes what turning rows and sums around takes.
  int most_blocks = 0, most_blocks_winograd = 0, long_blocks_as = 125, turning_depth = 0;
};

inline constexpr int64_t kInt8TaskBytes = 13 << 10;

inline constexpr int64_t kMaxBoundedGroups =
    1536;  // the tile keeps as many of its rows on the stack

inline constexpr int64_t kMaxSparseGroups = 1536;  // of which the tile keeps its rows, likewise

#define EVOQ_INT8_TILE(needs, def) extern const Int8TileDef def;
#include "kernels/gemm/int8_tiles.inc"
#undef EVOQ_INT8_TILE

#if defined(__x86_64__)
// The epilogue of a tile with AVX-512. sums: of row r and panel p, 16 numbers with their bias at
// 16 * (r * panel_count + p); 64-byte aligned, room for a multiple of 64 numbers; changed.
void FinishInt8Avx512(const Int8Tile& tile, int32_t* sums);
#endif

// The epilogue of row `row` in plain C++, for columns first <= n < last; acc[n] is the sum before
// the bias.
void FinishInt8Row(const Int8Tile& tile, int row, const int32_t* acc, int64_t first, int64_t last);

}  // namespace evoq
