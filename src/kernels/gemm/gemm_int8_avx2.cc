// AVX2 tiles without VNNI: vpmaddwd adds two exact products of int16 (vpmaddubsw would saturate).
// Activations widen once per tile, into a slab on the stack; weights as they are used. 12 of the 16
// registers accumulate: 6 rows x 16 columns. Shifting splits four bytes into the pairs 0, 2 and 1,
// 3 without leaving their lane, so a register of weights is 8 columns x one pair, and its sums are
// in the order of the columns.
#include <immintrin.h>

#include <cstdint>

#include "kernels/gemm/gemm_int8_avx2.inl.h"
#include "kernels/gemm/gemm_int8_bounded_avx2.h"
#include "kernels/gemm/gemm_int8_finish_avx2.inl.h"
#include "kernels/gemm/gemm_int8_sparse_tiles.h"

namespace evoq {
namespace {

constexpr int kTileRows = 6, kTilePanels = 4;
constexpr int64_t kSlabGroups = 128;

// Pairs 0, 2 and 1, 3 of groups of four channels as int16.
struct Slab {
  alignas(32) int32_t even[kTileRows][kSlabGroups];
  alignas(32) int32_t odd[kTileRows][kSlabGroups];
};

inline void Widen(const uint8_t* x, int64_t groups, int32_t* even, int32_t* odd) {
  const __m256i mask = _mm256_set1_epi16(0xff);
  int64_t g = 0;
  for (; g + 8 <= groups; g += 8) {
    const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + 4 * g));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(even + g), _mm256_and_si256(bytes, mask));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(odd + g), _mm256_srli_epi16(bytes, 8));
  }
  for (; groups >= 4 && g < groups; g += 4) {
    const int64_t at = g + 4 <= groups ? g : groups - 4;  // the last ones may be done twice
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(x + 4 * at));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(even + at),
                     _mm_and_si128(bytes, _mm256_castsi256_si128(mask)));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(odd + at), _mm_srli_epi16(bytes, 8));
  }
  for (; groups >= 2 && g < groups; g += 2) {
    const int64_t at = g + 2 <= groups ? g : groups - 2;
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(x + 4 * at));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(even + at),
                     _mm_and_si128(bytes, _mm256_castsi256_si128(mask)));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(odd + at), _mm_srli_epi16(bytes, 8));
  }
  for (; g < groups; ++g) {
    uint32_t four;
    __builtin_memcpy(&four, x + 4 * g, 4);
    even[g] = static_cast<int32_t>(four & 0xff00ff);
    odd[g] = static_cast<int32_t>(four >> 8 & 0xff00ff);
  }
}

// sums[r][j] (+)= the product of a slab and a panel's weights.
template <int kRows, bool kAdd>
void Product(const Slab& slab, int64_t groups, const int8_t* w, __m256i* sums) {
  __m256i acc[kRows][2];
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) {
    acc[r][0] = kAdd ? sums[2 * r] : _mm256_setzero_si256();
    acc[r][1] = kAdd ? sums[2 * r + 1] : _mm256_setzero_si256();
  }
  for (int64_t g = 0; g < groups; ++g, w += 64) {
    const __m256i w0 = _mm256_load_si256(reinterpret_cast<const __m256i*>(w));
    const __m256i w1 = _mm256_load_si256(reinterpret_cast<const __m256i*>(w + 32));
    const __m256i even0 = _mm256_srai_epi16(_mm256_slli_epi16(w0, 8), 8);
    const __m256i even1 = _mm256_srai_epi16(_mm256_slli_epi16(w1, 8), 8);
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
      const __m256i a = _mm256_set1_epi32(slab.even[r][g]);
      AddProduct(acc[r][0], a, even0);
      AddProduct(acc[r][1], a, even1);
    }
    const __m256i odd0 = _mm256_srai_epi16(w0, 8), odd1 = _mm256_srai_epi16(w1, 8);
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
      const __m256i a = _mm256_set1_epi32(slab.odd[r][g]);
      AddProduct(acc[r][0], a, odd0);
      AddProduct(acc[r][1], a, odd1);
    }
  }
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) {
    sums[2 * r] = acc[r][0];
    sums[2 * r + 1] = acc[r][1];
  }
}

template <int kRows>
void Tile(const Int8Tile& tile) {
  __m256i sums[kTilePanels][2 * kRows];
  Slab slab;
  int64_t tap = 0, at = 0, done = 0;  // groups `at` of a tap comes next; `done` ones are added
  while (tap < tile.taps) {
    int64_t filled = 0;
    while (tap < tile.taps && filled < kSlabGroups) {
      const int64_t n = tile.groups_of_4 - at < kSlabGroups - filled ? tile.groups_of_4 - at
                                                                     : kSlabGroups - filled;
      const int64_t offset =
          tile.x_offset + (tile.tap_offsets != nullptr ? tile.tap_offsets[tap] : 0) + 4 * at;
      for (int r = 0; r < kRows; ++r)
        Widen(tile.rows[tap * tile.row_stride + r] + offset, n, slab.even[r] + filled,
              slab.odd[r] + filled);
      filled += n;
      at += n;
      if (at == tile.groups_of_4) ++tap, at = 0;
    }
    for (int p = 0; p < tile.panel_count; ++p)
      (done == 0 ? Product<kRows, false>
                 : Product<kRows, true>)(slab, filled,
                                         tile.weights + p * tile.panel_bytes + 64 * done, sums[p]);
    done += filled;
  }
  for (int p = 0; p < tile.panel_count; ++p) FinishPanel(tile, p, sums[p]);
}

void RunTile(const Int8Tile& tile) {
  constexpr void (*kTiles[])(const Int8Tile&) = {nullptr, Tile<1>, Tile<2>, Tile<3>,
                                                 Tile<4>, Tile<5>, Tile<6>};
  kTiles[tile.row_count](tile);
}

// An activation fills the low half of a 32-bit lane, so that vpmaddwd gives one exact product per
// lane.
void Depthwise(int32_t* acc, const uint8_t* const* x, const int16_t* w, int64_t taps,
               int64_t count) {
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    __m256i sum = _mm256_setzero_si256();
    for (int64_t t = 0; t < taps; ++t) {
      const __m256i a =
          _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(x[t] + i)));
      const __m256i b = _mm256_cvtepi16_epi32(
          _mm_loadu_si128(reinterpret_cast<const __m128i*>(w + t * count + i)));
      sum = _mm256_add_epi32(sum, _mm256_madd_epi16(a, b));
    }
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(acc + i), sum);
  }
  for (; i < count; ++i) {
    acc[i] = 0;
    for (int64_t t = 0; t < taps; ++t) acc[i] += x[t][i] * w[t * count + i];
  }
}

void SumRows(const uint8_t* const* rows, int64_t row_stride, int64_t taps, int64_t offset,
             int64_t bytes, int64_t count, int32_t* sums) {
  for (int64_t i = 0; i < count; ++i) {
    __m256i wide = _mm256_setzero_si256();
    uint32_t rest = 0;
    for (int64_t t = 0; t < taps; ++t) {
      const uint8_t* x = rows[t * row_stride + i] + offset;
      int64_t c = 0;
      for (; c + 32 <= bytes; c += 32) {
        const __m256i four = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + c));
        wide = _mm256_add_epi64(wide, _mm256_sad_epu8(four, _mm256_setzero_si256()));
      }
      for (; c < bytes; ++c) rest += x[c];
    }
    alignas(32) uint64_t lanes[4];
    _mm256_store_si256(reinterpret_cast<__m256i*>(lanes), wide);
    sums[i] = static_cast<int32_t>(
        rest + static_cast<uint32_t>(lanes[0] + lanes[1] + lanes[2] + lanes[3]));
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
  const uint8_t** to = run.to;
  for (int64_t a = 0; a < run.outer_taps; ++a) {
    for (int64_t b = 0; b < run.inner_taps; ++b, to += run.tile) {
      const int64_t* inner = run.inner + b * run.width;
      for (int64_t i = 0; i < run.count; ++i)
        to[i] = (run.outer[a] | inner[i]) < 0 ? run.padding : run.x + (run.outer[a] + inner[i]);
    }
  }
}

constexpr Int8TileDef DefOf(const char* name, void (*run)(const Int8Tile&),
                            const Int8TileDef* bounded, const Int8TileDef* sparse) {
  return {.name = name,
          .max_panels = kTilePanels,
          .max_rows = {0, 6, 6, 6, 6},
          .takes_lanes = false,
          .takes_range = false,
          .run = run,
          .rows = &kInt8RowsAvx2,
          .bounded = bounded,
          .unsafe_pairs = UnsafePairsAvx2,
          .sparse = sparse};
}

constexpr Int8TileDef kBounded = DefOf("avx2 bytes", RunBoundedTileAvx2, nullptr, nullptr);

}  // namespace

const Int8RowTable kInt8RowsAvx2 = {
    .depthwise = Depthwise,
    .sum_rows = SumRows,
    .pointers = Pointers,
    .expand3 = Expand3,
};

const Int8TileDef kInt8TileAvx2 = DefOf("avx2", RunTile, &kBounded, &kInt8SparseAvx2);

}  // namespace evoq
