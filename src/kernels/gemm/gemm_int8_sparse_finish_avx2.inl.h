// How sparse tiles end with AVX2: sums are transposed and go the way of dense tiles. Included
// inside instruction-set files only.
#pragma once

#include "kernels/gemm/gemm_int8_finish_avx2.inl.h"
#include "kernels/gemm/gemm_int8_sparse.inl.h"

namespace evoq {
namespace {

// 16 whole columns of 8-bit outputs that are `small`, without residual, zero points of weights and
// slopes: bytes are transposed, not sums. The operations are those of FinishBytes.
template <int kUnits>
void FinishByteColumns(const Int8Tile& tile, int panel, const __m256i* columns) {
  const int32_t zero = tile.y_zero + tile.y_flip;
  const __m256i zeros = _mm256_set1_epi16(static_cast<int16_t>(zero));
  const __m256i low = _mm256_set1_epi8(static_cast<char>(static_cast<int32_t>(tile.low) + zero));
  const __m256i high = _mm256_set1_epi8(static_cast<char>(static_cast<int32_t>(tile.high) + zero));
  const __m256i flip = _mm256_set1_epi8(static_cast<char>(tile.y_flip));
  const __m256i by_row = _mm256_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15,  //
                                          0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  __m256i fours[kUnits][4];  // of each row four columns' bytes
  for (int line = 0; line < 4; ++line) {
    __m256i q[kUnits][4];
#pragma GCC unroll 4
    for (int c = 0; c < 4; ++c) {
      const int n = 4 * line + c;
      const __m256i bias = _mm256_set1_epi32(tile.bias[16 * panel + n]);
      const __m256 multiplier = _mm256_set1_ps(tile.multiplier[16 * panel + n]);
#pragma GCC unroll 3
      for (int unit = 0; unit < kUnits; ++unit)
        q[unit][c] = _mm256_cvtps_epi32(_mm256_mul_ps(
            _mm256_cvtepi32_ps(_mm256_add_epi32(columns[n * kUnits + unit], bias)), multiplier));
    }
#pragma GCC unroll 3
    for (int unit = 0; unit < kUnits; ++unit) {
      const __m256i first = _mm256_adds_epi16(_mm256_packs_epi32(q[unit][0], q[unit][1]), zeros);
      const __m256i second = _mm256_adds_epi16(_mm256_packs_epi32(q[unit][2], q[unit][3]), zeros);
      __m256i bytes = _mm256_packus_epi16(first, second);
      bytes = _mm256_xor_si256(_mm256_min_epu8(_mm256_max_epu8(bytes, low), high), flip);
      fours[unit][line] = _mm256_shuffle_epi8(bytes, by_row);
    }
  }
  for (int unit = 0; unit < kUnits; ++unit) {
    const __m256i* const f = fours[unit];
    const __m256i a = _mm256_unpacklo_epi32(f[0], f[1]), b = _mm256_unpackhi_epi32(f[0], f[1]),
                  c = _mm256_unpacklo_epi32(f[2], f[3]), d = _mm256_unpackhi_epi32(f[2], f[3]);
    const __m256i rows[4] = {_mm256_unpacklo_epi64(a, c), _mm256_unpackhi_epi64(a, c),
                             _mm256_unpacklo_epi64(b, d), _mm256_unpackhi_epi64(b, d)};
    const int left = tile.row_count - 8 * unit;
    uint8_t* y = tile.y + 8 * unit * tile.y_stride + 16 * panel;
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r, y += tile.y_stride) {
      if (r < left)
        _mm_storeu_si128(reinterpret_cast<__m128i*>(y), _mm256_castsi256_si128(rows[r]));
      if (r + 4 < left)
        _mm_storeu_si128(reinterpret_cast<__m128i*>(y + 4 * tile.y_stride),
                         _mm256_extracti128_si256(rows[r], 1));
    }
  }
}

template <int kUnits>
void FinishColumns(const Int8Tile& tile, const __m256i* columns) {
  const bool bytes = tile.output == Int8Output::kInt8 && tile.small && tile.w_zero == nullptr &&
                     tile.residual_type == Int8Residual::kNone && tile.slopes == nullptr;
  for (int p = 0; p < tile.panel_count; ++p, columns += 16 * kUnits) {
    const bool whole = (p > 0 || (tile.first_mask & 0xffff) == 0xffff) &&
                       (p < tile.panel_count - 1 || (tile.last_mask & 0xffff) == 0xffff);
    if (bytes && whole) {
      FinishByteColumns<kUnits>(tile, p, columns);
      continue;
    }
    __m256i sums[2 * 8 * kUnits];
    for (int unit = 0; unit < kUnits; ++unit) {
#pragma GCC unroll 2
      for (int half = 0; half < 2; ++half) {
        __m256i from[8], to[8];
#pragma GCC unroll 8
        for (int n = 0; n < 8; ++n) from[n] = columns[(8 * half + n) * kUnits + unit];
        Transpose8(from, to);
#pragma GCC unroll 8
        for (int r = 0; r < 8; ++r) sums[2 * (8 * unit + r) + half] = to[r];
      }
    }
    FinishPanel(tile, p, sums);
  }
}

inline __m256i BroadcastFour(const int8_t* w) {
  int32_t four;
  __builtin_memcpy(&four, w, 4);
  return _mm256_set1_epi32(four);
}

}  // namespace
}  // namespace evoq
