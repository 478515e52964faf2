// AVX2 tiles for weights whose pairs stay below 129 (their positive parts, and their negative
// ones): vpmaddubsw then adds two products of bytes without saturating, and vpmaddwd with ones two
// such sums. Three instructions for 32 products, where gemm_int8_avx2.cc needs four and widened
// operands. What weights lack comes in a second step, in which a register holds one group of all
// rows and a sum all rows of a column.
#include "kernels/gemm/gemm_int8_bounded_avx2.h"

#include "kernels/gemm/gemm_int8_finish_avx2.inl.h"
#include "kernels/gemm/transpose8.inl.h"

namespace evoq {
namespace {

constexpr int kTileRows = 6;

// slab[g] = group g of each row.
template <int kRows>
void Gather(const uint8_t* const* rows, int64_t offset, int64_t groups, __m256i* slab) {
  for (int64_t next = 0; groups >= 8 && next < groups; next += 8) {
    const int64_t g = next + 8 <= groups ? next : groups - 8;  // the last ones may be done twice
    __m256i in[8];
#pragma GCC unroll 8
    for (int r = 0; r < 8; ++r)
      in[r] = r < kRows
                  ? _mm256_loadu_si256(reinterpret_cast<const __m256i*>(rows[r] + offset + 4 * g))
                  : _mm256_setzero_si256();
    __m256i out[8];
    Transpose8(in, out);
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) slab[g + i] = out[i];
  }
  for (int64_t g = 0; groups < 8 && g < groups; ++g) {
    alignas(32) int32_t fours[8] = {};
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) __builtin_memcpy(&fours[r], rows[r] + offset + 4 * g, 4);
    slab[g] = _mm256_load_si256(reinterpret_cast<const __m256i*>(fours));
  }
}

// acc += the products of four bytes a and w per lane, kept from being reordered as in AddProduct.
inline void AddFour(__m256i& acc, __m256i a, __m256i w, __m256i ones) {
  acc = _mm256_add_epi32(acc, _mm256_madd_epi16(_mm256_maddubs_epi16(a, w), ones));
  asm("" : "+x"(acc));
}

// sums[r][j] = the product of a slab and a panel's weights.
template <int kRows>
void Product(const __m256i* slab, int64_t groups, const int8_t* w, __m256i* sums) {
  __m256i acc[kRows][2];
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) acc[r][0] = acc[r][1] = _mm256_setzero_si256();
  const __m256i ones = _mm256_set1_epi16(1);
  const auto* x = reinterpret_cast<const int32_t*>(slab);
  for (int64_t g = 0; g < groups; ++g, w += 64, x += 8) {
    const __m256i w0 = _mm256_load_si256(reinterpret_cast<const __m256i*>(w));
    const __m256i w1 = _mm256_load_si256(reinterpret_cast<const __m256i*>(w + 32));
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
      const __m256i a = _mm256_set1_epi32(x[r]);
      AddFour(acc[r][0], a, w0, ones);
      AddFour(acc[r][1], a, w1, ones);
    }
  }
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) {
    sums[2 * r] = acc[r][0];
    sums[2 * r + 1] = acc[r][1];
  }
}

template <int kRows>
void AddExcess(const Int8Excess* excess, const uint32_t* begin, const __m256i* slab,
               __m256i* sums) {
  const __m256i ones = _mm256_set1_epi16(1);
  for (int half = 0; half < 2; ++half) {
    __m256i columns[8], rows[8];
    for (int n = 0; n < 8; ++n) {
      __m256i sum = _mm256_setzero_si256();
      const Int8Excess* const end = excess + begin[8 * half + n + 1];
      for (const Int8Excess* e = excess + begin[8 * half + n]; e < end; ++e) {
        int32_t delta;
        __builtin_memcpy(&delta, e->delta, 4);
        sum = _mm256_add_epi32(
            sum, _mm256_madd_epi16(_mm256_maddubs_epi16(slab[e->group], _mm256_set1_epi32(delta)),
                                   ones));
      }
      columns[n] = sum;
    }
    Transpose8(columns, rows);
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r)
      sums[2 * r + half] = _mm256_add_epi32(sums[2 * r + half], rows[r]);
  }
}

template <int kRows>
void Tile(const Int8Tile& tile) {
  __m256i slab[kMaxBoundedGroups];
  for (int64_t tap = 0; tap < tile.taps; ++tap) {
    const int64_t offset =
        tile.x_offset + (tile.tap_offsets != nullptr ? tile.tap_offsets[tap] : 0);
    Gather<kRows>(tile.rows + tap * tile.row_stride, offset, tile.groups_of_4,
                  slab + tap * tile.groups_of_4);
  }
  const int64_t groups = tile.taps * tile.groups_of_4;
  for (int p = 0; p < tile.panel_count; ++p) {
    __m256i sums[2 * kRows];
    Product<kRows>(slab, groups, tile.weights + p * tile.panel_bytes, sums);
    const uint32_t* begin = tile.excess_begin + 17 * p;
    if (begin[0] != begin[16]) AddExcess<kRows>(tile.excess, begin, slab, sums);
    FinishPanel(tile, p, sums);
  }
}

void RunTile(const Int8Tile& tile) {
  constexpr void (*kTiles[kTileRows + 1])(const Int8Tile&) = {nullptr, Tile<1>, Tile<2>, Tile<3>,
                                                              Tile<4>, Tile<5>, Tile<6>};
  kTiles[tile.row_count](tile);
}

}  // namespace

void RunBoundedTileAvx2(const Int8Tile& tile) { RunTile(tile); }

uint32_t UnsafePairsAvx2(const int8_t* w) {
  const __m256i one = _mm256_set1_epi8(1), most = _mm256_set1_epi16(128),
                zero = _mm256_setzero_si256();
  __m256i unsafe[2];
  for (int j = 0; j < 2; ++j) {
    const __m256i v = _mm256_load_si256(reinterpret_cast<const __m256i*>(w) + j);
    const __m256i above = _mm256_maddubs_epi16(_mm256_max_epi8(v, zero), one);
    const __m256i below = _mm256_sub_epi16(
        above, _mm256_maddubs_epi16(one, v));  // the magnitude of the negative ones
    unsafe[j] = _mm256_cmpgt_epi16(_mm256_max_epi16(above, below), most);
  }
  const __m256i bytes = _mm256_permute4x64_epi64(_mm256_packs_epi16(unsafe[0], unsafe[1]), 0xd8);
  return static_cast<uint32_t>(_mm256_movemask_epi8(bytes));
}

}  // namespace evoq
