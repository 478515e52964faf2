// AVX-512 VNNI tiles: one 32-bit lane holds four channels, so that vpdpbusd adds four products of
// an unsigned activation and a signed weight to each int32. 28 of the 32 registers accumulate
// 14 rows x 2 panels; 24 accumulate 6 rows x 4, which leaves room for the panels' four.
#include <immintrin.h>

#include <array>
#include <cstdint>
#include <utility>

#include "kernels/gemm/gemm_int8_finish_avx512.inl.h"
#include "kernels/gemm/gemm_int8_sparse_tiles.h"
#include "kernels/gemm/walk.h"

namespace evoq {
namespace {

inline __m512i BroadcastFour(const uint8_t* x) {
  int32_t four;
  __builtin_memcpy(&four, x, 4);
  return _mm512_set1_epi32(four);
}

// The lines of wide outputs arrive while the sums are computed. In the L2 cache: in the L1 cache
// rows may evict one another.
template <int kPanels>
inline void FetchOutput(const Int8Tile& tile) {
  if (tile.output == Int8Output::kInt8) return;
  const char* y = reinterpret_cast<const char*>(tile.y);
  for (int r = 0; r < tile.row_count; ++r, y += tile.y_stride) {
#pragma GCC unroll 4
    for (int p = 0; p < kPanels; ++p) _mm_prefetch(y + 64 * p, _MM_HINT_T1);
  }
}

template <int kRows, int kPanels, End kEnd>
void Tile(const Int8Tile& tile) {
  FetchOutput<kPanels>(tile);
  __m512i acc[kRows * kPanels];
#pragma GCC unroll 32
  for (int i = 0; i < kRows * kPanels; ++i) {
    acc[i] = _mm512_loadu_si512(tile.bias + i % kPanels * 16);
    asm("" : "+v"(acc[i]));
  }
  const int8_t* w = tile.weights;
  const int64_t panel_bytes = tile.panel_bytes, bytes = 4 * tile.groups_of_4, ahead = tile.prefetch,
                line = tile.prefetch_line;
  for (int64_t tap = 0; tap < tile.taps; ++tap) {
    const uint8_t* x[kRows];
    const int64_t offset =
        tile.x_offset + (tile.tap_offsets != nullptr ? tile.tap_offsets[tap] : 0);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) x[r] = tile.rows[tap * tile.row_stride + r] + offset;
    for (int64_t k = 0; k < bytes; k += 4, w += 64) {
      FetchLines<kRows, kPanels>(w + ahead, line);
      __m512i b[kPanels];
#pragma GCC unroll 4
      for (int p = 0; p < kPanels; ++p) b[p] = _mm512_load_si512(w + p * panel_bytes);
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const __m512i a = BroadcastFour(x[r] + k);
#pragma GCC unroll 4
        for (int p = 0; p < kPanels; ++p)
          acc[r * kPanels + p] = _mm512_dpbusd_epi32(acc[r * kPanels + p], a, b[p]);
      }
    }
  }
  // What follows must not change where the loop keeps its sums.
#pragma GCC unroll 32
  for (int i = 0; i < kRows * kPanels; ++i) asm("" : "+v"(acc[i]));
  StoreTile<kEnd, kRows, kPanels>(tile, acc);
}

// Narrow groups: a register of a row's channels, of which every column takes its own group's four.
template <int kRows>
void LaneTile(const Int8Tile& tile) {
  __m512i acc[kRows];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) acc[r] = _mm512_loadu_si512(tile.bias);
  const __mmask16 words = static_cast<__mmask16>((1u << tile.lane_words) - 1);
  const __m512i lanes = _mm512_loadu_si512(tile.lanes);
  const int8_t* w = tile.weights;
  for (int64_t tap = 0; tap < tile.taps; ++tap) {
    const uint8_t* const* x = tile.rows + tap * tile.row_stride;
    const int64_t offset =
        tile.x_offset + (tile.tap_offsets != nullptr ? tile.tap_offsets[tap] : 0);
    for (int64_t q = 0; q < tile.groups_of_4; ++q, w += 64) {
      const __m512i b = _mm512_load_si512(w);
      const __m512i lane = _mm512_add_epi32(lanes, _mm512_set1_epi32(static_cast<int32_t>(q)));
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const __m512i a = tile.lane_words == 4
                              ? _mm512_castsi128_si512(_mm_loadu_si128(
                                    reinterpret_cast<const __m128i*>(x[r] + offset)))
                              : _mm512_maskz_loadu_epi32(words, x[r] + offset);
        acc[r] = _mm512_dpbusd_epi32(acc[r], _mm512_permutexvar_epi32(lane, a), b);
      }
    }
  }
  __m512i sums[(kRows + 3) / 4 * 4];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) sums[r] = acc[r];
  FinishTile<1>(tile, sums);
}

using TileFn = void (*)(const Int8Tile&);

// By number of rows; none for 0 rows.
template <int kPanels, End kEnd, int... kRows>
constexpr std::array<TileFn, 15> TilesOf(std::integer_sequence<int, kRows...>) {
  return {nullptr, Tile<kRows + 1, kPanels, kEnd>...};
}
template <int kPanels, int... kEnd>
constexpr std::array<std::array<TileFn, 15>, kEnds> TilesOfEnds(
    std::integer_sequence<int, kEnd...>) {
  return {TilesOf<kPanels, static_cast<End>(kEnd)>(
      std::make_integer_sequence<int, kPanels == 4 ? 6 : 14>())...};
}
template <int kPanels>
constexpr auto kTiles = TilesOfEnds<kPanels>(std::make_integer_sequence<int, kEnds>());

constexpr TileFn kLanes[15] = {nullptr,      LaneTile<1>,  LaneTile<2>,  LaneTile<3>,
                               LaneTile<4>,  LaneTile<5>,  LaneTile<6>,  LaneTile<7>,
                               LaneTile<8>,  LaneTile<9>,  LaneTile<10>, LaneTile<11>,
                               LaneTile<12>, LaneTile<13>, LaneTile<14>};

void RunTile(const Int8Tile& tile) {
  if (tile.lanes != nullptr) return kLanes[tile.row_count](tile);
  const auto& tiles = tile.panel_count == 1   ? kTiles<1>
                      : tile.panel_count == 2 ? kTiles<2>
                                              : kTiles<4>;
  tiles[static_cast<int>(EndOf(tile))][tile.row_count](tile);
}

// An activation fills the low half of a 32-bit lane, so that vpmaddwd gives one exact product per
// lane.
void Depthwise(int32_t* acc, const uint8_t* const* x, const int16_t* w, int64_t taps,
               int64_t count) {
  for (int64_t i = 0; i < count; i += 16) {
    const __mmask16 mask = count - i >= 16 ? 0xffff : (1u << (count - i)) - 1;
    __m512i sum = _mm512_setzero_si512();
    for (int64_t t = 0; t < taps; ++t) {
      const __m512i a = _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(mask, x[t] + i));
      const __m512i b = _mm512_cvtepi16_epi32(_mm256_maskz_loadu_epi16(mask, w + t * count + i));
      sum = _mm512_add_epi32(sum, _mm512_madd_epi16(a, b));
    }
    _mm512_mask_storeu_epi32(acc + i, mask, sum);
  }
}

void SumRows(const uint8_t* const* rows, int64_t row_stride, int64_t taps, int64_t offset,
             int64_t bytes, int64_t count, int32_t* sums) {
  const __m512i zero = _mm512_setzero_si512();
  const __mmask64 tail = (__mmask64{1} << (bytes % 64)) - 1;
  for (int64_t i = 0; i < count; ++i) {
    __m512i sum = zero;
    for (int64_t t = 0; t < taps; ++t) {
      const uint8_t* x = rows[t * row_stride + i] + offset;
      int64_t c = 0;
      for (; c + 64 <= bytes; c += 64)
        sum = _mm512_add_epi64(sum, _mm512_sad_epu8(_mm512_loadu_si512(x + c), zero));
      if (tail != 0)
        sum = _mm512_add_epi64(sum, _mm512_sad_epu8(_mm512_maskz_loadu_epi8(tail, x + c), zero));
    }
    sums[i] = static_cast<int32_t>(_mm512_reduce_add_epi64(sum));
  }
}

void Expand3(const uint8_t* from, uint8_t* to, int64_t pixels, uint8_t flip) {
  const __m128i order = _mm_setr_epi8(0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, -1);
  const __m128i flips = _mm_set1_epi32(flip * 0x10101);
  for (; pixels >= 6; pixels -= 4, from += 12, to += 16) {
    const __m128i bytes =
        _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)), order);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm_xor_si128(bytes, flips));
  }
  kInt8RowsScalar.expand3(from, to, pixels, flip);
}

void Pointers(const Int8PointerRun& run) {
  const __m512i padding = _mm512_set1_epi64(reinterpret_cast<int64_t>(run.padding));
  const uint8_t** to = run.to;
  for (int64_t a = 0; a < run.outer_taps; ++a) {
    const bool outside = run.outer[a] < 0;
    const __m512i base = _mm512_set1_epi64(reinterpret_cast<int64_t>(run.x) + run.outer[a]);
    for (int64_t b = 0; b < run.inner_taps; ++b, to += run.tile) {
      const int64_t* inner = run.inner + b * run.width;
      for (int64_t i = 0; i < run.count; i += 8) {
        const int64_t left = run.count - i;
        const __mmask8 mask = left >= 8 ? 0xff : static_cast<__mmask8>((1 << left) - 1);
        const __m512i offset = _mm512_maskz_loadu_epi64(mask, inner + i);
        const __mmask8 none = outside ? 0xff : _mm512_movepi64_mask(offset);
        _mm512_mask_storeu_epi64(
            to + i, mask, _mm512_mask_mov_epi64(_mm512_add_epi64(base, offset), none, padding));
      }
    }
  }
}

}  // namespace

void FinishInt8Avx512(const Int8Tile& tile, int32_t* sums) {
  auto* const vectors = reinterpret_cast<__m512i*>(sums);
  if (tile.panel_count == 1) return FinishTile<1>(tile, vectors);
  if (tile.panel_count == 2) return FinishTile<2>(tile, vectors);
  FinishTile<4>(tile, vectors);
}

const Int8RowTable kInt8RowsAvx512 = {
    .depthwise = Depthwise,
    .sum_rows = SumRows,
    .pointers = Pointers,
    .expand3 = Expand3,
};

const Int8TileDef kInt8TileAvx512 = {
    .name = "avx512",
    .max_panels = 4,
    .max_rows = {0, 14, 14, 6, 6},
    .takes_lanes = true,
    .takes_range = true,
    .run = RunTile,
    .rows = &kInt8RowsAvx512,
    .sparse = &kInt8SparseAvx512,
};

}  // namespace evoq
