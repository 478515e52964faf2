// Tiles of NEON's dot product of signed bytes: activations are taken less 128, and what that lacks,
// 128 times the sum of a column's weights, is added up once for all rows of a tile. 16 registers
// accumulate 4 rows x 16 columns, 4 what is lacking.
#include <arm_neon.h>

#include <cstdint>

#include "kernels/gemm/gemm_int8_finish_neon.inl.h"

namespace evoq {
namespace {

constexpr int kTileRows = 4;

template <int kRows>
struct Sums {
  int32x4_t acc[kRows][4];
  int32x4_t lacking[4];

  // Adds a group of four weights of each column, times lane `kLane` of each row.
  template <int kLane>
  [[gnu::always_inline]] void Add(const int8x16_t (&a)[kRows], const int8_t* w) {
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) {
      const int8x16_t b = vld1q_s8(w + 16 * v);
      lacking[v] = vdotq_s32(lacking[v], b, vdupq_n_s8(-128));
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) acc[r][v] = vdotq_laneq_s32(acc[r][v], b, a[r], kLane);
    }
  }
};

template <int kRows>
void Panel(const Int8Tile& tile, int panel) {
  const uint8x16_t flip = vdupq_n_u8(0x80);
  Sums<kRows> sums;
  for (int v = 0; v < 4; ++v) {
    sums.lacking[v] = vdupq_n_s32(0);
    for (int r = 0; r < kRows; ++r) sums.acc[r][v] = vdupq_n_s32(0);
  }
  const int8_t* w = tile.weights + panel * tile.panel_bytes;
  for (int64_t tap = 0; tap < tile.taps; ++tap) {
    const int64_t offset =
        tile.x_offset + (tile.tap_offsets != nullptr ? tile.tap_offsets[tap] : 0);
    const uint8_t* const* x = tile.rows + tap * tile.row_stride;
    int64_t q = 0;
    int8x16_t a[kRows];
    for (; q + 4 <= tile.groups_of_4; q += 4, w += 256) {
      for (int r = 0; r < kRows; ++r)
        a[r] = vreinterpretq_s8_u8(veorq_u8(vld1q_u8(x[r] + offset + 4 * q), flip));
      sums.template Add<0>(a, w);
      sums.template Add<1>(a, w + 64);
      sums.template Add<2>(a, w + 128);
      sums.template Add<3>(a, w + 192);
    }
    for (; q < tile.groups_of_4; ++q, w += 64) {
      for (int r = 0; r < kRows; ++r) {
        uint32_t four;
        __builtin_memcpy(&four, x[r] + offset + 4 * q, sizeof(four));
        a[r] = vreinterpretq_s8_u8(veorq_u8(vreinterpretq_u8_u32(vdupq_n_u32(four)), flip));
      }
      sums.template Add<0>(a, w);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    int32x4_t row[4];  // in memory, which sums must not be
    for (int v = 0; v < 4; ++v) row[v] = vsubq_s32(sums.acc[r][v], sums.lacking[v]);
    FinishRow(tile, panel, r, row);
  }
}

template <int kRows>
void Tile(const Int8Tile& tile) {
  for (int p = 0; p < tile.panel_count; ++p) Panel<kRows>(tile, p);
}

void RunTile(const Int8Tile& tile) {
  constexpr void (*kTiles[kTileRows + 1])(const Int8Tile&) = {nullptr, Tile<1>, Tile<2>, Tile<3>,
                                                              Tile<4>};
  kTiles[tile.row_count](tile);
}

}  // namespace

const Int8TileDef kInt8TileNeonDot = {.name = "neon_dot",
                                      .max_panels = 4,
                                      .max_rows = {0, 4, 4, 4, 4},
                                      .takes_lanes = false,
                                      .takes_range = false,
                                      .run = RunTile,
                                      .rows = &kInt8RowsScalar};

}  // namespace evoq
