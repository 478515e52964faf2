// Tiles of NEON's 2 x 2 products of eight bytes (I8MM): unsigned activations by signed weights. 24
// registers accumulate 6 rows x 16 columns, two rows by two columns each.
#include <arm_neon.h>

#include <cstdint>

#include "kernels/gemm/gemm_int8_finish_neon.inl.h"

namespace evoq {
namespace {

constexpr int kTileRows = 6;

// Rows 2 p and 2 p + 1 by columns 2 c and 2 c + 1, row by row.
template <int kPairs>
using Sums = int32x4_t[kPairs][8];

// Two groups of four along K: `w` and `next` are those of 16 columns.
template <int kPairs>
[[gnu::always_inline]] inline void Add(const uint8x16_t (&a)[kPairs], const int8_t* w,
                                       const int8_t* next, Sums<kPairs>& sums) {
#pragma GCC unroll 4
  for (int v = 0; v < 4; ++v) {
    const int32x4_t first = vreinterpretq_s32_s8(vld1q_s8(w + 16 * v));
    const int32x4_t second =
        next != nullptr ? vreinterpretq_s32_s8(vld1q_s8(next + 16 * v)) : vdupq_n_s32(0);
    const int8x16_t low = vreinterpretq_s8_s32(vzip1q_s32(first, second)),
                    high = vreinterpretq_s8_s32(vzip2q_s32(first, second));
#pragma GCC unroll 3
    for (int p = 0; p < kPairs; ++p) {
      sums[p][2 * v] = vusmmlaq_s32(sums[p][2 * v], a[p], low);
      sums[p][2 * v + 1] = vusmmlaq_s32(sums[p][2 * v + 1], a[p], high);
    }
  }
}

template <int kRows>
void Panel(const Int8Tile& tile, int panel) {
  constexpr int kPairs = (kRows + 1) / 2;
  Sums<kPairs> sums;
  for (auto& pair : sums) {
    for (int32x4_t& s : pair) s = vdupq_n_s32(0);
  }
  const int8_t* w = tile.weights + panel * tile.panel_bytes;
  for (int64_t tap = 0; tap < tile.taps; ++tap) {
    const int64_t offset =
        tile.x_offset + (tile.tap_offsets != nullptr ? tile.tap_offsets[tap] : 0);
    const uint8_t* x[2 * kPairs];  // the last row twice where there is no other
    for (int r = 0; r < 2 * kPairs; ++r)
      x[r] = tile.rows[tap * tile.row_stride + (r < kRows ? r : kRows - 1)] + offset;
    int64_t q = 0;
    uint8x16_t a[kPairs];
    // Six rows fill the registers.
    for (; kPairs < 3 && q + 4 <= tile.groups_of_4; q += 4, w += 256) {
      uint8x16_t next[kPairs];
#pragma GCC unroll 3
      for (int p = 0; p < kPairs; ++p) {
        const uint64x2_t even = vreinterpretq_u64_u8(vld1q_u8(x[2 * p] + 4 * q)),
                         odd = vreinterpretq_u64_u8(vld1q_u8(x[2 * p + 1] + 4 * q));
        a[p] = vreinterpretq_u8_u64(vzip1q_u64(even, odd));
        next[p] = vreinterpretq_u8_u64(vzip2q_u64(even, odd));
      }
      Add<kPairs>(a, w, w + 64, sums);
      Add<kPairs>(next, w + 128, w + 192, sums);
    }
    for (; q + 2 <= tile.groups_of_4; q += 2, w += 128) {
      for (int p = 0; p < kPairs; ++p)
        a[p] = vcombine_u8(vld1_u8(x[2 * p] + 4 * q), vld1_u8(x[2 * p + 1] + 4 * q));
      Add<kPairs>(a, w, w + 64, sums);
    }
    if (q == tile.groups_of_4) continue;
    for (int p = 0; p < kPairs; ++p) {  // four bytes only may be read; the other four meet zeros
      uint32_t four[2];
      __builtin_memcpy(&four[0], x[2 * p] + 4 * q, 4);
      __builtin_memcpy(&four[1], x[2 * p + 1] + 4 * q, 4);
      a[p] = vreinterpretq_u8_u32(vcombine_u32(vdup_n_u32(four[0]), vdup_n_u32(four[1])));
    }
    Add<kPairs>(a, w, nullptr, sums);
    w += 64;
  }
  for (int r = 0; r < kRows; ++r) {
    int32x4_t row[4];
    for (int v = 0; v < 4; ++v) {
      const int32x4_t left = sums[r / 2][2 * v], right = sums[r / 2][2 * v + 1];
      row[v] = r % 2 == 0 ? vcombine_s32(vget_low_s32(left), vget_low_s32(right))
                          : vcombine_s32(vget_high_s32(left), vget_high_s32(right));
    }
    FinishRow(tile, panel, r, row);
  }
}

template <int kRows>
void Tile(const Int8Tile& tile) {
  for (int p = 0; p < tile.panel_count; ++p) Panel<kRows>(tile, p);
}

void RunTile(const Int8Tile& tile) {
  constexpr void (*kTiles[kTileRows + 1])(const Int8Tile&) = {nullptr, Tile<1>, Tile<2>, Tile<3>,
                                                              Tile<4>, Tile<5>, Tile<6>};
  kTiles[tile.row_count](tile);
}

}  // namespace

const Int8TileDef kInt8TileNeonI8mm = {.name = "neon_i8mm",
                                       .max_panels = 4,
                                       .max_rows = {0, 6, 6, 6, 6},
                                       .takes_lanes = false,
                                       .takes_range = false,
                                       .run = RunTile,
                                       .rows = &kInt8RowsScalar};

}  // namespace evoq
