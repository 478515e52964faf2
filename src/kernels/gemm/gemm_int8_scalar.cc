#include <cstring>

#include "kernels/gemm/gemm_int8_sparse_tiles.h"

namespace evoq {
namespace {

void RunTile(const Int8Tile& tile) {
  for (int row = 0; row < tile.row_count; ++row) {
    for (int panel = 0; panel < tile.panel_count; ++panel) {
      uint32_t acc[16] = {};
      const int8_t* w = tile.weights + panel * tile.panel_bytes;
      for (int64_t tap = 0; tap < tile.taps; ++tap) {
        const int64_t offset =
            tile.x_offset + (tile.tap_offsets != nullptr ? tile.tap_offsets[tap] : 0);
        const uint8_t* x = tile.rows[tap * tile.row_stride + row] + offset;
        for (int64_t group = 0; group < tile.groups_of_4; ++group, w += 64, x += 4) {
          for (int n = 0; n < 16; ++n) {
            for (int i = 0; i < 4; ++i) acc[n] += static_cast<uint32_t>(x[i] * w[4 * n + i]);
          }
        }
      }
      uint32_t mask = 0xffff;
      if (panel == 0) mask &= tile.first_mask;
      if (panel == tile.panel_count - 1) mask &= tile.last_mask;
      int32_t sums[64];
      std::memcpy(sums + 16 * panel, acc, sizeof(acc));
      for (int n = 0; n < 16; ++n) {
        if (mask >> n & 1) FinishInt8Row(tile, row, sums, 16 * panel + n, 16 * panel + n + 1);
      }
    }
  }
}

void Depthwise(int32_t* acc, const uint8_t* const* x, const int16_t* w, int64_t taps,
               int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    acc[i] = 0;
    for (int64_t t = 0; t < taps; ++t) acc[i] += x[t][i] * w[t * count + i];
  }
}

void SumRows(const uint8_t* const* rows, int64_t row_stride, int64_t taps, int64_t offset,
             int64_t bytes, int64_t count, int32_t* sums) {
  for (int64_t i = 0; i < count; ++i) {
    uint32_t sum = 0;
    for (int64_t t = 0; t < taps; ++t) {
      const uint8_t* x = rows[t * row_stride + i] + offset;
      for (int64_t c = 0; c < bytes; ++c) sum += x[c];
    }
    sums[i] = static_cast<int32_t>(sum);
  }
}

void Expand3(const uint8_t* from, uint8_t* to, int64_t pixels, uint8_t flip) {
  for (int64_t i = 0; i < pixels; ++i) {
    for (int64_t c = 0; c < 3; ++c) to[4 * i + c] = from[3 * i + c] ^ flip;
    to[4 * i + 3] = 0;
  }
}

void Pointers(const Int8PointerRun& run) {
  const uint8_t** to = run.to;
  for (int64_t a = 0; a < run.outer_taps; ++a) {
    for (int64_t b = 0; b < run.inner_taps; ++b, to += run.tile) {
      const int64_t* inner = run.inner + b * run.width;
      for (int64_t i = 0; i < run.count; ++i)
        to[i] = (run.outer[a] | inner[i]) < 0 ? run.padding : run.x + (run.outer[a] + inner[i]);
    }
  }
}

}  // namespace

const Int8RowTable kInt8RowsScalar = {
    .depthwise = Depthwise,
    .sum_rows = SumRows,
    .pointers = Pointers,
    .expand3 = Expand3,
};

const Int8TileDef kInt8TileScalar = {
    .name = "scalar",
    .max_panels = 4,
    .max_rows = {0, 4, 4, 4, 4},
    .takes_lanes = false,
    .takes_range = false,
    .run = RunTile,
    .rows = &kInt8RowsScalar,
    .sparse = &kInt8SparseScalar,
};

}  // namespace evoq
