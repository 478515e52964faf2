// Products of many rows (product.h) on tiles of AMX: weights become signed bytes less their zero
// points first, so that sums are what the definition adds up, and nothing is corrected.
//
// Plain data only: this header is included by files that are compiled for one instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/gemm/blocks/product.h"

namespace evoq {

// Rows of q lie where a tile of kTileRows reads them, also those that a product does not have.
inline constexpr int kBlockTileRows = 128;

// Bytes of a column that a tile takes at a time: whole blocks are a multiple of it, or K ends
// within the first one. 0: no tiles for blocks of such a size.
constexpr int BlockTileDepth(const BlockCut& cut) {
  return cut.block % 64 == 0 || cut.blocks() == 1 ? 64 : cut.block == 32 ? 32 : 0;
}

// A unit of 32 columns as tiles read it. Of each block of the cut: 32 scales, float32, and for each
// BlockTileDepth k the tiles of columns 0 to 15 and of columns 16 to 31, a line of 64 bytes for
// each four k, 16 columns of four bytes.
constexpr int64_t BlockTileBytes(const BlockCut& cut) {
  const int64_t depth = BlockTileDepth(cut), whole = cut.blocks() - 1,
                last = cut.depth - whole * cut.block;
  const int64_t steps = whole * ((cut.block + depth - 1) / depth) + (last + depth - 1) / depth;
  return cut.blocks() * 128 + steps * depth * kUnitColumns;
}

struct BlockTiles {
  const char* name;
  // Stand around a thread's tiles of this cut.
  void (*begin)(const BlockCut& cut);
  void (*end)();
  // A unit as above. Of a stream with steps, in blocks of kStepDepth whose scales are the steps: (u
  // - offset) * multiple. Else u + added, or u - its zero point; it fits int8.
  void (*unpack)(BlockLines kind, const BlockUnit& unit, int32_t added, uint8_t* bytes);
  // As BlockTable::tile of both panels of a unit, up to kBlockTileRows rows; of `rows` no
  // corrections are read.
  void (*tile)(const BlockCut& cut, const uint8_t* unit, const BlockRows& rows, int64_t row,
               int row_count, int64_t column, int64_t columns);
};

// Stands around a thread's tiles; null: there are none.
class BlockTileTask {
 public:
  BlockTileTask(const BlockTiles* tiles, const BlockCut& cut) : tiles_(tiles) {
    if (tiles_ != nullptr) tiles_->begin(cut);
  }
  ~BlockTileTask() {
    if (tiles_ != nullptr) tiles_->end();
  }
  BlockTileTask(const BlockTileTask&) = delete;
  BlockTileTask& operator=(const BlockTileTask&) = delete;

 private:
  const BlockTiles* tiles_;
};

#if defined(__x86_64__)
extern const BlockTiles kBlockTilesAmx, kBlockTilesAmxSoftware;
#endif
inline constexpr IsaRow<BlockTiles> kBlockTilesRows[] = {
#if defined(__x86_64__)
    {.needs = Isa::kAmx, .table = &kBlockTilesAmx},
    {.needs = Isa::kAmxSoftware, .table = &kBlockTilesAmxSoftware},
    {.needs = Isa::kAvx512, .table = nullptr},
    {.needs = Isa::kAvx2, .table = nullptr},
#endif
    {.needs = Isa::kScalar, .table = nullptr}};

}  // namespace evoq
