#include "kernels/gemm/gemm_int8_sparse_tiles.h"

namespace evoq {
namespace {

// The four channels of group `group`, counted through all taps.
const uint8_t* GroupOf(const Int8Tile& tile, int row, int64_t group) {
  const int64_t tap = group / tile.groups_of_4;
  const int64_t offset = tile.x_offset + (tile.tap_offsets != nullptr ? tile.tap_offsets[tap] : 0);
  return tile.rows[tap * tile.row_stride + row] + offset + 4 * (group % tile.groups_of_4);
}

// What the blocks of line `line` add to the sums of its columns.
void AddLine(const Int8Tile& tile, int row, int64_t line, uint32_t* acc) {
  const Int8Sparse& sparse = *tile.sparse;
  const int64_t groups = tile.taps * tile.groups_of_4;
  for (uint32_t i = sparse.blocks.begin[line]; i < sparse.blocks.begin[line + 1]; ++i) {
    const int8_t* w = sparse.blocks.weights + 16 * static_cast<int64_t>(i);
    for (int part = 0; part < 4; ++part, w += 4) {
      const int64_t group = sparse.blocks.groups[i] + (sparse.line_columns == 4 ? 0 : part);
      if (group >= groups) break;  // a block's weights beyond K are 0
      const uint8_t* x = GroupOf(tile, row, group);
      uint32_t& sum = acc[sparse.line_columns == 4 ? part : 0];
      for (int k = 0; k < 4; ++k) sum += static_cast<uint32_t>(x[k] * w[k]);
    }
  }
}

void RunTile(const Int8Tile& tile) {
  const int64_t lines = 16 / tile.sparse->line_columns;
  for (int row = 0; row < tile.row_count; ++row) {
    for (int panel = 0; panel < tile.panel_count; ++panel) {
      uint32_t acc[16] = {};
      for (int64_t i = 0; i < lines; ++i)
        AddLine(tile, row, (tile.sparse_panel + panel) * lines + i,
                acc + i * tile.sparse->line_columns);
      uint32_t mask = 0xffff;
      if (panel == 0) mask &= tile.first_mask;
      if (panel == tile.panel_count - 1) mask &= tile.last_mask;
      int32_t sums[64];
      __builtin_memcpy(sums + 16 * panel, acc, sizeof(acc));
      for (int n = 0; n < 16; ++n) {
        if (mask >> n & 1) FinishInt8Row(tile, row, sums, 16 * panel + n, 16 * panel + n + 1);
      }
    }
  }
}

}  // namespace

const Int8TileDef kInt8SparseScalar = {
    .name = "scalar sparse",
    .max_panels = 4,
    .max_rows = {0, 4, 4, 4, 4},
    .takes_lanes = false,
    .takes_range = false,
    .run = RunTile,
    .rows = &kInt8RowsScalar,
    .most_blocks = 50,
    .most_blocks_winograd = 50,
};

}  // namespace evoq
