// What drivers of integer tiles share: the choice of tiles, what stands around them, and dense rows
// by packed columns, tile by tile.
#pragma once

#include "kernels/gemm/gemm_int8_tile.h"

namespace evoq {

// What decides which tiles compute a product.
struct Int8Use {
  int64_t rows;
  int64_t depth;          // bytes along K, of all taps
  bool lanes = false;     // Int8Tile::lanes
  bool smallest = false;  // not the tiles of the best instruction, whatever the product
};

struct Int8TileChoice {
  const Int8TileDef* tiles;
  // Of a product that `best` leaves to smaller tiles, which kind it is: "for few rows". Or empty.
  const char* why = "";
};

// The tiles of a product on a machine whose best ones are `best`.
Int8TileChoice TilesFor(const Int8TileDef& best, const Int8Use& use);

// Stands around a thread's tiles, which are copies of `tile` as it is then, or of copies. All is
// written when it is gone, or flushed.
class Int8TileTask {
 public:
  Int8TileTask(const Int8TileDef& tiles, Int8Tile& tile) : tiles_(tiles) {
    if (tiles_.begin != nullptr) tiles_.begin(tile, room_);
  }
  ~Int8TileTask() {
    if (tiles_.end != nullptr) tiles_.end(room_);
  }
  Int8TileTask(const Int8TileTask&) = delete;
  Int8TileTask& operator=(const Int8TileTask&) = delete;

  void Flush() {
    if (tiles_.flush != nullptr) tiles_.flush(room_);
  }

 private:
  const Int8TileDef& tiles_;
  alignas(64) std::byte room_[kInt8TaskBytes];
};

// The height of tiles that cut so many rows nearly evenly.
int TileRows(const Int8TileDef& tiles, int panels, int64_t rows);

struct Int8Block {
  const uint8_t* const* rows;  // of whole groups of four bytes
  const int32_t* row_sums;     // as Int8Tile
  int64_t count;
  int64_t begin, end;  // columns; `begin` is a multiple of 16
  int tile_panels;     // 1, 2 or 4, at most Int8TileDef::max_panels
};

// `tile` has one tap and the pointers of the block's first row and of column 0.
void RunInt8Block(const Int8TileDef& tiles, const Int8Block& block, Int8Tile tile);

// sums[16 p + n] = the sum of column n of panel p, of `panels` panels: products with `ones`,
// panel_bytes / 16 times 1. `tiles`: the best ones.
void SumInt8Columns(const Int8TileDef& tiles, const int8_t* weights, int64_t panel_bytes,
                    int64_t panels, const uint8_t* ones, int32_t* sums);

// How wide tiles of products with so many rows and panels are best.
int Int8BlockPanels(const Int8TileDef& tiles, int64_t rows, int64_t panels);

}  // namespace evoq
