// AVX-VNNI tiles: vpdpbusd adds four products of an unsigned activation and a signed weight to each
// int32, in 256 bits. 12 of the 16 registers accumulate: 6 rows x 16 columns, one panel after the
// other. Included by instruction-set files, which define EVOQ_DPBUSD, that instruction, and the
// table EVOQ_TABLE, its name EVOQ_TABLE_NAME and that of its sparse tiles, EVOQ_SPARSE_TABLE.
#include <immintrin.h>

#include <cstdint>

#include "kernels/gemm/gemm_int8_finish_avx2.inl.h"
#include "kernels/gemm/gemm_int8_sparse_tiles.h"

namespace evoq {
namespace {

constexpr int kTileRows = 6, kTilePanels = 4;

template <int kRows>
void Panel(const Int8Tile& tile, int panel) {
  __m256i sums[kRows][2];
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) sums[r][0] = sums[r][1] = _mm256_setzero_si256();
  const int8_t* w = tile.weights + panel * tile.panel_bytes;
  const int64_t bytes = 4 * tile.groups_of_4,
                ahead = panel == 0 || tile.prefetch_line != 0 ? tile.prefetch : 0;
  for (int64_t tap = 0; tap < tile.taps; ++tap) {
    const uint8_t* x[kRows];
    const int64_t offset =
        tile.x_offset + (tile.tap_offsets != nullptr ? tile.tap_offsets[tap] : 0);
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) x[r] = tile.rows[tap * tile.row_stride + r] + offset;
    for (int64_t k = 0; k < bytes; k += 4, w += 64) {
      _mm_prefetch(reinterpret_cast<const char*>(w) + ahead, _MM_HINT_T1);
      const __m256i w0 = _mm256_load_si256(reinterpret_cast<const __m256i*>(w));
      const __m256i w1 = _mm256_load_si256(reinterpret_cast<const __m256i*>(w + 32));
#pragma GCC unroll 6
      for (int r = 0; r < kRows; ++r) {
        int32_t four;
        __builtin_memcpy(&four, x[r] + k, 4);
        const __m256i a = _mm256_set1_epi32(four);
        sums[r][0] = EVOQ_DPBUSD(sums[r][0], a, w0);
        sums[r][1] = EVOQ_DPBUSD(sums[r][1], a, w1);
      }
    }
  }
  __m256i stored[kRows][2];  // in memory, which the sums of the loop must not be
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) stored[r][0] = sums[r][0], stored[r][1] = sums[r][1];
  FinishPanel(tile, panel, stored[0]);
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

const Int8TileDef EVOQ_TABLE = {.name = EVOQ_TABLE_NAME,
                                .max_panels = kTilePanels,
                                .max_rows = {0, 6, 6, 6, 6},
                                .takes_lanes = false,
                                .takes_range = false,
                                .run = RunTile,
                                .rows = &kInt8RowsAvx2,
                                .sparse = &EVOQ_SPARSE_TABLE};

}  // namespace evoq
