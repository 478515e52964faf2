#include "kernels/gemm/int8_block.h"

#include <algorithm>

#include "base/math.h"

namespace evoq {

Int8TileChoice TilesFor(const Int8TileDef& best, const Int8Use& use) {
  Int8TileChoice choice = {&best};
  while (choice.tiles->small != nullptr) {
    const char* const why = use.smallest                              ? ""
                            : use.lanes && !choice.tiles->takes_lanes ? "for narrow groups"
                            : use.rows < choice.tiles->least_rows     ? "for few rows"
                            : use.depth < choice.tiles->least_depth   ? "for short rows"
                                                                      : nullptr;
    if (why == nullptr) break;
    choice = {choice.tiles->small, why};
  }
  return choice;
}

int TileRows(const Int8TileDef& tiles, int panels, int64_t rows) {
  const int64_t even = CeilDiv(rows, CeilDiv(rows, tiles.max_rows[panels]));
  return static_cast<int>(RoundUp(even, tiles.row_step));
}

void RunInt8Block(const Int8TileDef& tiles, const Int8Block& block, Int8Tile tile) {
  const Int8TileTask task(tiles, tile);
  const Int8Tile base = tile;
  const int64_t y_bytes = tile.output == Int8Output::kInt8 ? 1 : 4,
                residual_bytes = tile.residual_type == Int8Residual::kFloat32 ? 4 : 1;
  for (int64_t column = block.begin; column < block.end; column += 16 * tile.panel_count) {
    const int64_t panel = column / 16,
                  left = std::min<int64_t>(CeilDiv(block.end, 16) - panel, block.tile_panels);
    tile.panel_count = static_cast<int32_t>(left >= 4 ? 4 : left >= 2 ? 2 : 1);
    const int64_t after = column + 16 * tile.panel_count;
    tile.last_mask = after > block.end ? 0xffffu >> (after - block.end) : 0xffffu;
    tile.first_mask = tile.panel_count == 1 ? tile.last_mask : 0xffffu;
    tile.weights = base.weights + panel * tile.panel_bytes;
    tile.bias = base.bias + column;
    if (base.multiplier != nullptr) tile.multiplier = base.multiplier + column;
    if (base.slopes != nullptr) tile.slopes = base.slopes + column;
    if (base.w_zero != nullptr) tile.w_zero = base.w_zero + column;
    const int64_t height = TileRows(tiles, tile.panel_count, block.count);
    for (int64_t row = 0; row < block.count; row += tile.row_count) {
      tile.row_count = static_cast<int32_t>(std::min(height, block.count - row));
      tile.row_stride = tile.row_count;
      tile.rows = block.rows + row;
      if (block.row_sums != nullptr) tile.row_sums = block.row_sums + row;
      tile.y = base.y + row * tile.y_stride + column * y_bytes;
      if (base.residual != nullptr)
        tile.residual = base.residual + row * tile.residual_stride + column * residual_bytes;
      tiles.run(tile);
    }
  }
}

void SumInt8Columns(const Int8TileDef& tiles, const int8_t* weights, int64_t panel_bytes,
                    int64_t panels, const uint8_t* ones, int32_t* sums) {
  static constexpr int32_t kNone[16] = {};
  const Int8TileDef& one_row = *TilesFor(tiles, {1, panel_bytes / 16}).tiles;
  Int8Tile tile = {};
  tile.rows = &ones;
  tile.taps = tile.row_stride = 1;
  tile.groups_of_4 = panel_bytes / 64;
  tile.row_count = tile.panel_count = 1;
  tile.first_mask = tile.last_mask = 0xffff;
  tile.bias = kNone;
  tile.output = Int8Output::kInt32;
  tile.prefetch = 2048;
  const Int8TileTask task(one_row, tile);
  for (int64_t panel = 0; panel < panels; ++panel) {
    tile.weights = weights + panel * panel_bytes;
    tile.y = reinterpret_cast<uint8_t*>(sums + 16 * panel);
    one_row.run(tile);
  }
}

int Int8BlockPanels(const Int8TileDef& tiles, int64_t rows, int64_t panels) {
  const bool few = tiles.max_panels >= 4 && panels >= 4 && rows <= tiles.max_rows[4];
  return few ? 4 : std::min(2, tiles.max_panels);
}

}  // namespace evoq
