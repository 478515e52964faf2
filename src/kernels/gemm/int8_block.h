// Dense rows by packed columns, tile by tile: what products of two computed operands share.
#pragma once

#include "kernels/gemm/gemm_int8_tile.h"

namespace evoq {

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
// panel_bytes / 16 times 1.
void SumInt8Columns(const Int8TileDef& tiles, const int8_t* weights, int64_t panel_bytes,
                    int64_t panels, const uint8_t* ones, int32_t* sums);

// How wide tiles of products with so many rows and panels are best.
int Int8BlockPanels(const Int8TileDef& tiles, int64_t rows, int64_t panels);

}  // namespace evoq
