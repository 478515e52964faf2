// Products of rows that were rounded to int8 by blocks (block_data.h) with constant weights of 2, 4
// or 8 bits: the contract of one family of kernels.
//
// Plain data only: this header is included by files that are compiled for one instruction set.
#pragma once

#include <cstdint>

#include "kernels/isa_table.h"

namespace evoq {

inline constexpr int kBlockColumns = 16;  // of a panel
inline constexpr int kUnitPanels = 2, kUnitColumns = kUnitPanels * kBlockColumns;

// How the weights of a panel lie: lines of 64 bytes, 16 columns of four bytes. They stand for
// numbers u >= 0, which is what the dot-product instructions want of one operand. A line of
// elements of 8 / G bits holds 4 G of them for a column: byte (n, i) of line l has the bits of k =
// 4 G l + i lowest, those of k + 4 next.
enum class BlockLines {
  kNibbles,       // u[k, n], 4 bits
  kPairs,         // u[k, n], 2 bits
  kE2m1,          // float4e2m1, 4 bits: u is twice its value, plus kE2m1Offset
  kSmallBytes,    // u[k, n] < 32, 8 bits: what lines of fewer bits are unpacked to; any u for tall
                  // tiles, which lines of 8 bits are unpacked for too
  kFlippedBytes,  // u[k, n] less 128, 8 bits: layout k4n16-matmul
  kStepBytes      // 8 bits, in blocks of kStepDepth with a float16 scale: what unpack_steps makes
};
inline constexpr int kE2m1Offset = 12;

// Blocks of kStepBlock may have scales that are small multiples of one number, their step, which
// kStepBlocks of them share (scale_steps.h). A head holds them so, and lines become bytes that
// these were multiplied into (BlockTable::unpack_steps): sums of kStepDepth k need no scales then.
inline constexpr int64_t kStepBlock = 32, kStepBlocks = 4, kStepDepth = kStepBlocks * kStepBlock;

// Tall tiles with zero points multiply blocks of at most so many k.
inline constexpr int64_t kMostTallBlock = 256;

// Blocks of `block` along K share an integer sum; `pieces` of them one scale of the data (one in
// which K ends may have fewer), `blocks_per_scale` one scale and zero point of the weights. block
// is a multiple of a line's k, or K ends within the first one.
struct BlockCut {
  int64_t depth;
  int64_t block, pieces, blocks_per_scale;

  EVOQ_ALWAYS_INLINE int64_t blocks() const { return (depth + block - 1) / block; }
  EVOQ_ALWAYS_INLINE int64_t data_blocks() const { return (blocks() + pieces - 1) / pieces; }
  EVOQ_ALWAYS_INLINE int64_t scales() const {
    return (blocks() + blocks_per_scale - 1) / blocks_per_scale;
  }
};

// Weights with all that belongs to them, as a product reads them: one stretch of bytes, from its
// first to its last, which is what memory gives fastest. Units of 32 columns follow one another,
// the last filled up with zeros. Of a unit, for each scale that a column has:
//   32 scales, float16 or float32;
//   where zero points differ, 32 of them, those of u, a byte each, and 32 bytes of nothing;
//   of each line of k that they belong to that of columns 0 to 15, then that of columns 16 to 31.
// With `steps`, of blocks of kStepBlock, a head stands before kStepBlocks scales' lines: 32 steps,
// float16, and 32 words of 16 bits, of which bits [4 i, 4 i + 4) are the multiple of scale i. The
// data's blocks are those of the steps then.
struct BlockStream {
  BlockCut cut;
  int64_t columns;
  bool half_scales, has_zeros;  // without zero points `corrections` are whole
  bool steps = false;

  EVOQ_ALWAYS_INLINE int64_t scale_bytes() const { return half_scales && !steps ? 64 : 128; }
  EVOQ_ALWAYS_INLINE int64_t head_bytes() const { return scale_bytes() + (has_zeros ? 64 : 0); }
};

// The unit that a tile is in.
struct BlockUnit {
  BlockStream stream;
  const uint8_t* bytes;
};

// What comes behind a tile, and is asked for while it multiplies.
struct BlockAhead {
  // From a line to that which a tile of both panels and 3 rows or more asks for beside it, in
  // bytes.
  static constexpr int64_t kNear = 8192;
  int64_t distance = kNear;

  // Tall tiles ask for a few lines beside each block, so that products never wait for all of them
  // at once.
  // Weights as they lie, until `end`; each tile moves `at` on.
  const uint8_t* at = nullptr;
  const uint8_t* end = nullptr;
  // `rows` rows of kUnitColumns of y, which the next tile will write; null: none.
  const float* y = nullptr;
  int64_t rows = 0;
};

// Rows are multiplied in tiles. What belongs to their blocks lies in the order in which a tile
// reads it: of the tile of rows [row, row + R) `scales` + row * data_blocks is [data_blocks][R],
// and `corrections` + row * blocks [blocks][R].
struct BlockRows {
  int64_t stride;  // bytes from row to row of q, a multiple of 8, zeros behind K
  const int8_t* q;
  int64_t blocks, data_blocks;  // of a row
  const float* scales;
  const int32_t* corrections;  // what each sum starts with, or factor of `zeros`
  const float* bias;           // [columns] or null
  const float* residual;       // [rows][columns] or null
  float* y;                    // [rows][columns]
  bool asks_ahead;             // CpuModel::asks_ahead
};

struct BlockTable {
  const char* name;
  int max_rows;   // of a tile; any fewer rows run too
  int wide_rows;  // tiles of up to so many have both panels of a unit, others one
  // Of taller tiles of both panels (CpuModel::one_set_of_ports), of lines as they lie and, in
  // products of more than two of these, of unpacked units; 0: there are none. Where several blocks
  // share a scale of the data, those of unpacked units have nested_rows instead.
  int tall_direct_rows, tall_rows, nested_rows;
  // So many multiply lines of fewer than 8 bits as they lie; of more the lines are unpacked first.
  // step_rows: as many where unpack_steps may do it.
  int64_t direct_rows, step_rows;
  // Whether lines of kFlippedBytes are multiplied as the signed numbers that they hold, u - 128:
  // their corrections are those of zero points that are 128 less.
  bool signed_bytes;
  // One row of a tile of `tile_rows`: q, scales[d * tile_rows] and corrections[b * tile_rows] =
  // factor * (sum of q in block b).
  void (*quantize)(const float* x, const BlockCut& cut, int32_t factor, int64_t tile_rows,
                   int64_t stride, int8_t* q, float* scales, int32_t* corrections);
  // The unit with its lines of G numbers to a byte as G times as many of kSmallBytes. Null where
  // lines are never unpacked.
  void (*unpack)(BlockLines kind, const BlockUnit& unit, uint8_t* bytes);
  // The unit, with `steps` and u less than 16, as one in blocks of kStepDepth whose scales
  // are the steps, float16: of lines of kStepBytes that hold (u - `offset`) * multiple + 128.
  void (*unpack_steps)(BlockLines kind, const BlockUnit& unit, int32_t offset, uint8_t* bytes);
  // y without activation, for the tile of rows [row, row + row_count) and panels(row_count) panels
  // from `panel` on, which are in one unit; there may be no columns in the last one.
  void (*tile)(BlockLines kind, const BlockUnit& unit, const BlockRows& rows, int64_t row,
               int row_count, int64_t panel, BlockAhead& ahead);

  int panels(int64_t row_count) const {
    return row_count <= wide_rows || row_count <= tall_rows ? kUnitPanels : 1;
  }
};

#define EVOQ_BLOCK_TABLE(isa)        \
  namespace isa {                    \
  extern const BlockTable kBlockDot; \
  }
#if defined(__x86_64__)
EVOQ_BLOCK_TABLE(avx512)
EVOQ_BLOCK_TABLE(avx2_vnni)
EVOQ_BLOCK_TABLE(avx2_vnni_evex)
EVOQ_BLOCK_TABLE(avx2)
#endif
EVOQ_BLOCK_TABLE(scalar)
#undef EVOQ_BLOCK_TABLE
inline constexpr IsaRow<BlockTable> kBlockRows[] = {
#if defined(__x86_64__)
    {.needs = Isa::kAvx512, .table = &avx512::kBlockDot},
    {.needs = Isa::kAvx2Vnni, .table = &avx2_vnni::kBlockDot},
    {.needs = Isa::kAvx2VnniEvex, .table = &avx2_vnni_evex::kBlockDot},
    {.needs = Isa::kAvx2, .table = &avx2::kBlockDot},
#endif
    {.needs = Isa::kScalar, .table = &scalar::kBlockDot}};

}  // namespace evoq
