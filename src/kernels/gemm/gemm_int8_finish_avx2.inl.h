// How AVX2 tiles of integer products end: from int32 sums without their bias, rows of 16 columns in
// two registers each, to the stored output. Included inside instruction-set files only.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/gemm/gemm_int8_tile.h"
#include "kernels/part_of_vector.inl.h"

namespace evoq {
namespace {

// Where column `column` of a row lies in the residual and in what is stored.
inline const uint8_t* ResidualAt(const Int8Tile& tile, int64_t row, int column) {
  if (tile.residual_type == Int8Residual::kNone) return nullptr;
  const int size = tile.residual_type == Int8Residual::kFloat32 ? 4 : 1;
  return tile.residual + row * tile.residual_stride + column * size;
}
inline uint8_t* OutputAt(const Int8Tile& tile, int64_t row, int column) {
  return tile.y + row * tile.y_stride + column * (tile.output == Int8Output::kInt8 ? 1 : 4);
}

inline __m256 AddResidualBytes(const Int8Tile& tile, __m128i bytes, __m256 v) {
  __m256i q = tile.residual_type == Int8Residual::kUint8 ? _mm256_cvtepu8_epi32(bytes)
                                                         : _mm256_cvtepi8_epi32(bytes);
  q = _mm256_sub_epi32(q, _mm256_set1_epi32(tile.residual_zero));
  return _mm256_add_ps(
      v, _mm256_mul_ps(_mm256_cvtepi32_ps(q), _mm256_set1_ps(tile.residual_multiplier)));
}

// Eight residuals from r on.
inline __m256 AddResidual(const Int8Tile& tile, const uint8_t* r, __m256 v) {
  if (tile.residual_type == Int8Residual::kFloat32)
    return _mm256_add_ps(v, _mm256_loadu_ps(reinterpret_cast<const float*>(r)));
  return AddResidualBytes(tile, _mm_loadl_epi64(reinterpret_cast<const __m128i*>(r)), v);
}

inline __m256 Sloped(const Int8Tile& tile, int column, __m256 v) {
  const __m256 negative = _mm256_cmp_ps(v, _mm256_setzero_ps(), _CMP_LT_OQ);
  return _mm256_blendv_ps(v, _mm256_mul_ps(v, _mm256_loadu_ps(tile.slopes + column)), negative);
}

// One row x 8 columns from `column` on: from the sum to what is stored, at y, with the residuals
// at r.
inline void Finish(const Int8Tile& tile, int row, int column, __m256i sum, const uint8_t* r,
                   uint8_t* y) {
  sum = _mm256_add_epi32(sum,
                         _mm256_loadu_si256(reinterpret_cast<const __m256i*>(tile.bias + column)));
  if (tile.w_zero != nullptr) {
    const __m256i zero = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(tile.w_zero + column));
    sum = _mm256_sub_epi32(sum, _mm256_mullo_epi32(zero, _mm256_set1_epi32(tile.row_sums[row])));
  }
  if (tile.output == Int8Output::kInt32) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(y), sum);
    return;
  }
  __m256 v = _mm256_mul_ps(_mm256_cvtepi32_ps(sum), _mm256_loadu_ps(tile.multiplier + column));
  if (tile.offset != nullptr) v = _mm256_add_ps(v, _mm256_loadu_ps(tile.offset + column));
  if (tile.residual_type != Int8Residual::kNone) v = AddResidual(tile, r, v);
  if (tile.slopes != nullptr) v = Sloped(tile, column, v);
  if (tile.clamp) {
    v = _mm256_max_ps(_mm256_set1_ps(tile.low), v);
    v = _mm256_min_ps(_mm256_set1_ps(tile.high), v);
  }
  if (tile.output == Int8Output::kFloat32) {
    _mm256_storeu_ps(reinterpret_cast<float*>(y), v);
    return;
  }
  __m256i q = _mm256_add_epi32(_mm256_cvtps_epi32(v), _mm256_set1_epi32(tile.y_zero));
  q = _mm256_shuffle_epi8(
      q, _mm256_setr_epi8(0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,  //
                          0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1));
  const __m128i bytes =
      _mm_unpacklo_epi32(_mm256_castsi256_si128(q), _mm256_extracti128_si256(q, 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(y), bytes);
}

// 8-bit outputs that are `small` of the first `count` of 16 columns: rows of sums[2]. `kPlain`:
// there are neither residuals, bytes too, nor slopes.
template <bool kPlain, bool kWhole>
void FinishBytes(const Int8Tile& tile, int column, int count, const __m256i* sums) {
  const int32_t zero = tile.y_zero + tile.y_flip;
  const __m256i bias[2] = {
      _mm256_loadu_si256(reinterpret_cast<const __m256i*>(tile.bias + column)),
      _mm256_loadu_si256(reinterpret_cast<const __m256i*>(tile.bias + column) + 1)};
  const __m256 multiplier[2] = {_mm256_loadu_ps(tile.multiplier + column),
                                _mm256_loadu_ps(tile.multiplier + column + 8)};
  const __m256i zeros = _mm256_set1_epi16(static_cast<int16_t>(zero));
  const __m128i low = _mm_set1_epi8(static_cast<char>(static_cast<int32_t>(tile.low) + zero));
  const __m128i high = _mm_set1_epi8(static_cast<char>(static_cast<int32_t>(tile.high) + zero));
  const __m128i flip = _mm_set1_epi8(static_cast<char>(tile.y_flip));
  uint8_t* y = tile.y + column;
  const int64_t y_stride = tile.y_stride, rows = tile.row_count;
  const bool residuals = !kPlain && tile.residual_type != Int8Residual::kNone;
  for (int64_t r = 0; r < rows; ++r, sums += 2, y += y_stride) {
    __m128i residual = _mm_setzero_si128();
    if (!kWhole && residuals) residual = LoadPart(ResidualAt(tile, r, column), count);
    __m256i q[2] = {};
#pragma GCC unroll 2
    for (int j = 0; j < 2; ++j) {
      __m256 v =
          _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_add_epi32(sums[j], bias[j])), multiplier[j]);
      if (kWhole && residuals) v = AddResidual(tile, ResidualAt(tile, r, column + 8 * j), v);
      if (!kWhole && residuals)
        v = AddResidualBytes(tile, j == 0 ? residual : _mm_unpackhi_epi64(residual, residual), v);
      if (!kPlain && tile.slopes != nullptr) v = Sloped(tile, column + 8 * j, v);
      q[j] = _mm256_cvtps_epi32(v);
    }
    const __m256i words = _mm256_adds_epi16(_mm256_packs_epi32(q[0], q[1]), zeros);
    const __m256i pairs = _mm256_packus_epi16(words, words);  // columns 0-3, 8-11 and 4-7, 12-15
    __m128i bytes =
        _mm_unpacklo_epi32(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1));
    bytes = _mm_xor_si128(_mm_min_epu8(_mm_max_epu8(bytes, low), high), flip);
    if (kWhole) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(y), bytes);
    } else {
      StorePart(y, bytes, count);
    }
  }
}

// The same of float32 outputs; without residuals where the columns are not whole.
template <bool kPlain, bool kWhole>
void FinishFloats(const Int8Tile& tile, int column, int count, const __m256i* sums) {
  constexpr float kInfinity = __builtin_inff();
  __m256i bias[2], stored[2];
  __m256 multiplier[2];
#pragma GCC unroll 2
  for (int j = 0; j < 2; ++j) {
    const int at = column + 8 * j;
    bias[j] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(tile.bias + at));
    multiplier[j] = _mm256_loadu_ps(tile.multiplier + at);
    stored[j] = _mm256_cmpgt_epi32(_mm256_set1_epi32(count - 8 * j),
                                   _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
  const __m256 low = _mm256_set1_ps(tile.clamp ? tile.low : -kInfinity),
               high = _mm256_set1_ps(tile.clamp ? tile.high : kInfinity);
  uint8_t* y = tile.y + 4 * column;
  const int64_t y_stride = tile.y_stride, rows = tile.row_count;
  for (int64_t r = 0; r < rows; ++r, sums += 2, y += y_stride) {
#pragma GCC unroll 2
    for (int j = 0; j < 2; ++j) {
      __m256 v =
          _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_add_epi32(sums[j], bias[j])), multiplier[j]);
      if (tile.offset != nullptr)
        v = _mm256_add_ps(v, _mm256_loadu_ps(tile.offset + column + 8 * j));
      if (!kPlain && kWhole && tile.residual_type != Int8Residual::kNone)
        v = AddResidual(tile, ResidualAt(tile, r, column + 8 * j), v);
      if (!kPlain && tile.slopes != nullptr) v = Sloped(tile, column + 8 * j, v);
      v = _mm256_min_ps(high, _mm256_max_ps(low, v));  // a NaN stays
      float* const to = reinterpret_cast<float*>(y) + 8 * j;
      kWhole ? _mm256_storeu_ps(to, v) : _mm256_maskstore_ps(to, stored[j], v);
    }
  }
}

// Of one row x 8 columns those of `some`, which lie beside each other.
[[gnu::noinline]] inline void FinishSome(const Int8Tile& tile, int row, int column, uint32_t some,
                                         __m256i sum) {
  alignas(32) uint8_t residual[32] = {}, out[32];
  const int from = __builtin_ctz(some), count = __builtin_popcount(some);
  if (tile.residual_type != Int8Residual::kNone) {
    const int size = tile.residual_type == Int8Residual::kFloat32 ? 4 : 1;
    __builtin_memcpy(residual + from * size, ResidualAt(tile, row, column + from), count * size);
  }
  Finish(tile, row, column, sum, residual, out);
  const int size = tile.output == Int8Output::kInt8 ? 1 : 4;
  __builtin_memcpy(OutputAt(tile, row, column + from), out + from * size, count * size);
}

// The first `count` columns of a panel, of outputs that FinishBytes or FinishFloats takes.
inline void FinishFirst(const Int8Tile& tile, int column, int count, bool plain,
                        const __m256i* sums) {
  using Finisher = void (*)(const Int8Tile&, int, int, const __m256i*);
  static constexpr Finisher kFinishers[2][2][2] = {
      {{FinishBytes<false, false>, FinishBytes<false, true>},
       {FinishBytes<true, false>, FinishBytes<true, true>}},
      {{FinishFloats<false, false>, FinishFloats<false, true>},
       {FinishFloats<true, false>, FinishFloats<true, true>}}};
  kFinishers[tile.output == Int8Output::kFloat32][plain][count == 16](tile, column, count, sums);
}

// The epilogue of the sums of one panel, [rows][2]. Out of line: it would cost the tile its
// registers.
__attribute__((noinline)) void FinishPanel(const Int8Tile& tile, int panel, const __m256i* sums) {
  uint32_t mask = 0xffff;
  if (panel == 0) mask &= tile.first_mask;
  if (panel == tile.panel_count - 1) mask &= tile.last_mask;
  const int column = 16 * panel;
  const int count = __builtin_popcount(mask);
  const bool bare = tile.residual_type == Int8Residual::kNone;
  const bool taken = tile.output == Int8Output::kInt8      ? tile.small
                     : tile.output == Int8Output::kFloat32 ? count == 16 || bare
                                                           : false;
  // One vector of eight is quicker in the loop below.
  if (taken && count != 8 && tile.w_zero == nullptr &&
      (mask & (mask + 1)) == 0)  // from the first column on
    return FinishFirst(tile, column, count, bare && tile.slopes == nullptr, sums);
  for (int r = 0; r < tile.row_count; ++r, sums += 2) {
    for (int j = 0; j < 2; ++j) {
      const uint32_t some = mask >> (8 * j) & 0xff;
      if (some == 0xff) {
        const int at = column + 8 * j;
        Finish(tile, r, at, sums[j], ResidualAt(tile, r, at), OutputAt(tile, r, at));
      } else if (some != 0) {
        FinishSome(tile, r, column + 8 * j, some, sums[j]);
      }
    }
  }
}

}  // namespace
}  // namespace evoq
