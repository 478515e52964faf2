// AVX-512 VNNI tiles: one 32-bit lane holds four channels, so that vpdpbusd adds four products of
// an unsigned activation and a signed weight to each int32. 28 of the 32 registers accumulate: 14
// rows x 2 panels or 7 rows x 4.
#include <immintrin.h>

#include <array>
#include <cstdint>
#include <utility>

#include "kernels/gemm/gemm_int8_tile.h"

namespace evoq {
namespace {

inline __m512i BroadcastFour(const uint8_t* x) {
  int32_t four;
  __builtin_memcpy(&four, x, 4);
  return _mm512_set1_epi32(four);
}

// acc + a . *b, with b as an operand in memory for tiles that have no register left.
inline __m512i DotMemory(__m512i acc, __m512i a, const int8_t* b) {
  asm("vpdpbusd %2, %1, %0" : "+v"(acc) : "v"(a), "m"(*reinterpret_cast<const __m512i*>(b)));
  return acc;
}

inline __m512 AddResidual(const Int8Tile& tile, int row, int column, __mmask16 mask, __m512 v) {
  const uint8_t* r = tile.residual + row * tile.residual_stride;
  if (tile.residual_type == Int8Residual::kFloat32)
    return _mm512_add_ps(v, _mm512_maskz_loadu_ps(mask, r + 4 * column));
  const __m128i bytes = mask == 0xffff
                            ? _mm_loadu_si128(reinterpret_cast<const __m128i*>(r + column))
                            : _mm_maskz_loadu_epi8(mask, r + column);
  __m512i q = tile.residual_type == Int8Residual::kUint8 ? _mm512_cvtepu8_epi32(bytes)
                                                         : _mm512_cvtepi8_epi32(bytes);
  q = _mm512_sub_epi32(q, _mm512_set1_epi32(tile.residual_zero));
  return _mm512_add_ps(
      v, _mm512_mul_ps(_mm512_cvtepi32_ps(q), _mm512_set1_ps(tile.residual_multiplier)));
}

inline __m512 Leaky(const Int8Tile& tile, __m512 v) {
  const __mmask16 negative = _mm512_cmp_ps_mask(v, _mm512_setzero_ps(), _CMP_LT_OQ);
  return _mm512_mask_mul_ps(v, negative, v, _mm512_set1_ps(tile.leaky_alpha));
}

// One row x 16 columns of bytes: from the sum to the stored output.
inline void Finish(const Int8Tile& tile, int row, int panel, __mmask16 mask, __m512i sum) {
  const int column = 16 * panel;
  uint8_t* y = tile.y + row * tile.y_stride;
  __m512 v = _mm512_mul_ps(_mm512_cvtepi32_ps(sum), _mm512_loadu_ps(tile.multiplier + column));
  if (tile.residual_type != Int8Residual::kNone) v = AddResidual(tile, row, column, mask, v);
  if (tile.leaky) v = Leaky(tile, v);
  v = _mm512_min_ps(_mm512_set1_ps(tile.high), _mm512_max_ps(_mm512_set1_ps(tile.low), v));
  const __m512i q = _mm512_add_epi32(_mm512_cvtps_epi32(v), _mm512_set1_epi32(tile.y_zero));
  _mm_mask_storeu_epi8(y + column, mask, _mm512_cvtepi32_epi8(q));
}

// Stores the 16 bytes of one row x panel.
inline void StoreBytes(uint8_t* y, uint32_t mask, __m128i bytes) {
  if (mask == 0xffff) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(y), bytes);
  } else {
    _mm_mask_storeu_epi8(y, static_cast<__mmask16>(mask), bytes);
  }
}

// The epilogue of 8-bit outputs whose values are `small`: four vectors narrow together. `sums` is
// padded to whole fours.
template <int kPanels, bool kResidual, bool kLeaky>
void FinishBytes(const Int8Tile& tile, const __m512i* sums) {
  const int count = tile.row_count * kPanels;
  __m512 multiplier[4];
  uint32_t mask[4];
  int64_t y_offset[4], r_offset[4];
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    const int p = j % kPanels;
    multiplier[j] = _mm512_loadu_ps(tile.multiplier + 16 * p);
    mask[j] =
        (p == 0 ? tile.first_mask : 0xffff) & (p == kPanels - 1 ? tile.last_mask : 0xffff) & 0xffff;
    y_offset[j] = j / kPanels * tile.y_stride + 16 * p;
    r_offset[j] = j / kPanels * tile.residual_stride + 16 * p;
  }
  const bool together = tile.y_stride == 16 * kPanels;  // neighbouring rows touch
  const bool whole = (mask[0] & mask[1] & mask[2] & mask[3]) == 0xffff;
  const int32_t zero = tile.y_zero + tile.y_flip;
  const int32_t lowest = static_cast<int32_t>(tile.low) + zero,
                highest = static_cast<int32_t>(tile.high) + zero;
  const bool clamp =
      lowest != 0 || highest != 255 || tile.y_flip != 0;  // more than the saturation to uint8
  const __m512i zeros = _mm512_set1_epi16(static_cast<int16_t>(zero));
  const __m512i low = _mm512_set1_epi8(static_cast<char>(lowest)),
                high = _mm512_set1_epi8(static_cast<char>(highest));
  const __m512i flip = _mm512_set1_epi8(static_cast<char>(tile.y_flip));
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  uint8_t* y = tile.y;
  for (int i = 0; i < count; i += 4, y += 4 / kPanels * tile.y_stride) {
    __m512i q[4];
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      __m512 v = _mm512_mul_ps(_mm512_cvtepi32_ps(sums[i + j]), multiplier[j]);
      if (kResidual && i + j < count) {
        const uint8_t* residual = tile.residual + i / kPanels * tile.residual_stride + r_offset[j];
        const __m128i bytes = _mm_maskz_loadu_epi8(static_cast<__mmask16>(mask[j]), residual);
        const __m512i r = tile.residual_type == Int8Residual::kUint8 ? _mm512_cvtepu8_epi32(bytes)
                                                                     : _mm512_cvtepi8_epi32(bytes);
        const __m512 real =
            _mm512_cvtepi32_ps(_mm512_sub_epi32(r, _mm512_set1_epi32(tile.residual_zero)));
        v = _mm512_add_ps(v, _mm512_mul_ps(real, _mm512_set1_ps(tile.residual_multiplier)));
      }
      if (kLeaky) v = Leaky(tile, v);
      q[j] = _mm512_cvtps_epi32(v);
    }
    const __m512i q01 = _mm512_adds_epi16(_mm512_packs_epi32(q[0], q[1]), zeros);
    const __m512i q23 = _mm512_adds_epi16(_mm512_packs_epi32(q[2], q[3]), zeros);
    __m512i bytes = _mm512_packus_epi16(q01, q23);
    if (clamp) bytes = _mm512_xor_si512(_mm512_min_epu8(_mm512_max_epu8(bytes, low), high), flip);
    bytes = _mm512_permutexvar_epi32(order, bytes);
    if (whole && (kPanels == 4 || (together && i + 4 <= count))) {
      _mm512_storeu_si512(y, bytes);
    } else if (whole && kPanels == 2) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(y), _mm512_castsi512_si256(bytes));
      if (i + 2 < count)
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(y + tile.y_stride),
                            _mm512_extracti64x4_epi64(bytes, 1));
    } else {
      StoreBytes(y + y_offset[0], mask[0], _mm512_castsi512_si128(bytes));
      if (i + 1 < count) StoreBytes(y + y_offset[1], mask[1], _mm512_extracti32x4_epi32(bytes, 1));
      if (i + 2 < count) StoreBytes(y + y_offset[2], mask[2], _mm512_extracti32x4_epi32(bytes, 2));
      if (i + 3 < count) StoreBytes(y + y_offset[3], mask[3], _mm512_extracti32x4_epi32(bytes, 3));
    }
  }
}

// The epilogue of float32 outputs.
template <int kPanels>
void FinishFloats(const Int8Tile& tile, const __m512i* sums) {
  const __m512 lowest = _mm512_set1_ps(tile.low), highest = _mm512_set1_ps(tile.high);
  __m512 least = _mm512_setzero_ps(), most = least;
  for (int p = 0; p < kPanels; ++p) {
    const int column = 16 * p;
    const auto mask = static_cast<__mmask16>((p == 0 ? tile.first_mask : 0xffff) &
                                             (p == kPanels - 1 ? tile.last_mask : 0xffff));
    const __m512 multiplier = _mm512_loadu_ps(tile.multiplier + column);
    const __m512 offset =
        tile.offset != nullptr ? _mm512_loadu_ps(tile.offset + column) : _mm512_setzero_ps();
    uint8_t* y = tile.y + 4 * column;
    for (int r = 0; r < tile.row_count; ++r, y += tile.y_stride) {
      __m512 v = _mm512_mul_ps(_mm512_cvtepi32_ps(sums[r * kPanels + p]), multiplier);
      if (tile.offset != nullptr) v = _mm512_add_ps(v, offset);
      if (tile.residual_type != Int8Residual::kNone) v = AddResidual(tile, r, column, mask, v);
      if (tile.leaky) v = Leaky(tile, v);
      if (tile.clamp) v = _mm512_min_ps(highest, _mm512_max_ps(lowest, v));
      if (tile.range != nullptr) {  // a NaN leaves the second operand
        least = _mm512_mask_min_ps(least, mask, v, least);
        most = _mm512_mask_max_ps(most, mask, v, most);
      }
      if (mask == 0xffff) {
        _mm512_storeu_ps(y, v);
      } else {
        _mm512_mask_storeu_ps(y, mask, v);
      }
    }
  }
  if (tile.range == nullptr) return;
  _mm512_storeu_ps(tile.range, _mm512_min_ps(least, _mm512_loadu_ps(tile.range)));
  _mm512_storeu_ps(tile.range + 16, _mm512_max_ps(most, _mm512_loadu_ps(tile.range + 16)));
}

// The epilogue of int32 outputs.
template <int kPanels>
void FinishInts(const Int8Tile& tile, const __m512i* sums) {
  for (int p = 0; p < kPanels; ++p) {
    const auto mask = static_cast<__mmask16>((p == 0 ? tile.first_mask : 0xffff) &
                                             (p == kPanels - 1 ? tile.last_mask : 0xffff));
    uint8_t* y = tile.y + 64 * p;
    for (int r = 0; r < tile.row_count; ++r, y += tile.y_stride) {
      if (mask == 0xffff) {
        _mm512_storeu_si512(y, sums[r * kPanels + p]);
      } else {
        _mm512_mask_storeu_epi32(y, mask, sums[r * kPanels + p]);
      }
    }
  }
}

// The epilogue of a tile's sums with their bias, rows x panels. Out of line: it would cost the tile
// its registers.
template <int kPanels>
__attribute__((noinline)) void FinishTile(const Int8Tile& tile, __m512i* sums) {
  if (tile.w_zero != nullptr) {
    for (int i = 0; i < tile.row_count * kPanels; ++i) {
      const __m512i zero = _mm512_loadu_si512(tile.w_zero + i % kPanels * 16);
      sums[i] = _mm512_sub_epi32(
          sums[i], _mm512_mullo_epi32(zero, _mm512_set1_epi32(tile.row_sums[i / kPanels])));
    }
  }
  if (tile.output == Int8Output::kInt8 && tile.small) {
    const bool residual = tile.residual_type != Int8Residual::kNone;
    if (tile.leaky)
      return (residual ? FinishBytes<kPanels, true, true>
                       : FinishBytes<kPanels, false, true>)(tile, sums);
    return (residual ? FinishBytes<kPanels, true, false>
                     : FinishBytes<kPanels, false, false>)(tile, sums);
  }
  if (tile.output == Int8Output::kFloat32) return FinishFloats<kPanels>(tile, sums);
  if (tile.output == Int8Output::kInt32) return FinishInts<kPanels>(tile, sums);
  for (int p = 0; p < kPanels; ++p) {
    uint32_t mask = 0xffff;
    if (p == 0) mask &= tile.first_mask;
    if (p == kPanels - 1) mask &= tile.last_mask;
    for (int r = 0; r < tile.row_count; ++r)
      Finish(tile, r, p, static_cast<__mmask16>(mask), sums[r * kPanels + p]);
  }
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

// How a tile ends: its sums go through FinishTile, or, where all columns are stored, straight from
// their registers.
enum class End { kAny, kBytes, kBytesWithResidual, kInts, kFloats };

// FinishFloats of whole panels without residual and LeakyRelu, from registers.
template <int kRows, int kPanels>
inline __attribute__((always_inline)) void StoreRowsOfFloats(
    const Int8Tile& tile, const __m512i (&acc)[kRows * kPanels]) {
  const float *multiplier = tile.multiplier, *offset = tile.offset;
  float* const range = tile.range;
  const bool clamp = tile.clamp;
  const __m512 lowest = _mm512_set1_ps(tile.low), highest = _mm512_set1_ps(tile.high);
  __m512 least = _mm512_setzero_ps(), most = least;
  uint8_t* y = tile.y;
  const int64_t y_stride = tile.y_stride;
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r, y += y_stride) {
#pragma GCC unroll 4
    for (int p = 0; p < kPanels; ++p) {
      __m512 v = _mm512_mul_ps(_mm512_cvtepi32_ps(acc[r * kPanels + p]),
                               _mm512_loadu_ps(multiplier + 16 * p));
      if (offset != nullptr) v = _mm512_add_ps(v, _mm512_loadu_ps(offset + 16 * p));
      if (clamp) v = _mm512_min_ps(highest, _mm512_max_ps(lowest, v));
      if (range != nullptr) {  // a NaN leaves the second operand
        least = _mm512_min_ps(v, least);
        most = _mm512_max_ps(v, most);
      }
      _mm512_storeu_ps(y + 64 * p, v);
    }
  }
  if (range == nullptr) return;
  _mm512_storeu_ps(range, _mm512_min_ps(least, _mm512_loadu_ps(range)));
  _mm512_storeu_ps(range + 16, _mm512_max_ps(most, _mm512_loadu_ps(range + 16)));
}

// FinishBytes of whole panels without LeakyRelu, from registers.
template <int kRows, int kPanels, bool kResidual>
inline __attribute__((always_inline)) void StoreRowsOfBytes(const Int8Tile& tile,
                                                            const __m512i (&acc)[kRows * kPanels]) {
  constexpr int kCount = kRows * kPanels;
  const int32_t zero = tile.y_zero + tile.y_flip;
  const int32_t lowest = static_cast<int32_t>(tile.low) + zero,
                highest = static_cast<int32_t>(tile.high) + zero;
  const bool clamp =
      lowest != 0 || highest != 255 || tile.y_flip != 0;  // more than the saturation to uint8
  const bool unsigned_residual = tile.residual_type == Int8Residual::kUint8;
  const __m512i zeros = _mm512_set1_epi16(static_cast<int16_t>(zero));
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  uint8_t* y = tile.y;
#pragma GCC unroll 8
  for (int i = 0; i < kCount; i += 4, y += 4 / kPanels * tile.y_stride) {
    __m512i q[4] = {};
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      if (i + j >= kCount) continue;
      const int p = j % kPanels;
      __m512 v =
          _mm512_mul_ps(_mm512_cvtepi32_ps(acc[i + j]), _mm512_loadu_ps(tile.multiplier + 16 * p));
      if (kResidual) {
        const uint8_t* residual = tile.residual + (i + j) / kPanels * tile.residual_stride + 16 * p;
        const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(residual));
        const __m512i r =
            unsigned_residual ? _mm512_cvtepu8_epi32(bytes) : _mm512_cvtepi8_epi32(bytes);
        const __m512 real =
            _mm512_cvtepi32_ps(_mm512_sub_epi32(r, _mm512_set1_epi32(tile.residual_zero)));
        v = _mm512_add_ps(v, _mm512_mul_ps(real, _mm512_set1_ps(tile.residual_multiplier)));
      }
      q[j] = _mm512_cvtps_epi32(v);
    }
    const __m512i q01 = _mm512_adds_epi16(_mm512_packs_epi32(q[0], q[1]), zeros);
    const __m512i q23 = _mm512_adds_epi16(_mm512_packs_epi32(q[2], q[3]), zeros);
    __m512i bytes = _mm512_packus_epi16(q01, q23);
    if (clamp) {
      bytes = _mm512_max_epu8(bytes, _mm512_set1_epi8(static_cast<char>(lowest)));
      bytes = _mm512_min_epu8(bytes, _mm512_set1_epi8(static_cast<char>(highest)));
      bytes = _mm512_xor_si512(bytes, _mm512_set1_epi8(static_cast<char>(tile.y_flip)));
    }
    bytes = _mm512_permutexvar_epi32(order, bytes);
    if (kPanels == 4) {
      _mm512_storeu_si512(y, bytes);
    } else if (kPanels == 2) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(y), _mm512_castsi512_si256(bytes));
      if (i + 2 < kCount)
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(y + tile.y_stride),
                            _mm512_extracti64x4_epi64(bytes, 1));
    } else {
      const auto at = [&](int row) { return reinterpret_cast<__m128i*>(y + row * tile.y_stride); };
      _mm_storeu_si128(at(0), _mm512_castsi512_si128(bytes));
      if (i + 1 < kCount) _mm_storeu_si128(at(1), _mm512_extracti32x4_epi32(bytes, 1));
      if (i + 2 < kCount) _mm_storeu_si128(at(2), _mm512_extracti32x4_epi32(bytes, 2));
      if (i + 3 < kCount) _mm_storeu_si128(at(3), _mm512_extracti32x4_epi32(bytes, 3));
    }
  }
}

template <int kRows, int kPanels, End kEnd>
void Tile(const Int8Tile& tile) {
  constexpr int kLoaded =
      kRows * kPanels + kPanels > 30 ? 2 : kPanels;  // panels in registers: rows' bytes take two
  FetchOutput<kPanels>(tile);
  __m512i acc[kRows * kPanels];
#pragma GCC unroll 32
  for (int i = 0; i < kRows * kPanels; ++i) {
    acc[i] = _mm512_loadu_si512(tile.bias + i % kPanels * 16);
    asm("" : "+v"(acc[i]));
  }
  const int8_t* w = tile.weights;
  const int64_t panel_bytes = tile.panel_bytes, bytes = 4 * tile.groups_of_4, ahead = tile.prefetch;
  for (int64_t tap = 0; tap < tile.taps; ++tap) {
    const uint8_t* x[kRows];
    const int64_t offset =
        tile.x_offset + (tile.tap_offsets != nullptr ? tile.tap_offsets[tap] : 0);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) x[r] = tile.rows[tap * tile.row_stride + r] + offset;
    for (int64_t k = 0; k < bytes; k += 4, w += 64) {
      _mm_prefetch(reinterpret_cast<const char*>(w) + ahead, _MM_HINT_T1);
      __m512i b[kLoaded];
#pragma GCC unroll 4
      for (int p = 0; p < kLoaded; ++p) b[p] = _mm512_load_si512(w + p * panel_bytes);
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const __m512i a = BroadcastFour(x[r] + k);
#pragma GCC unroll 4
        for (int p = 0; p < kLoaded; ++p)
          acc[r * kPanels + p] = _mm512_dpbusd_epi32(acc[r * kPanels + p], a, b[p]);
#pragma GCC unroll 4
        for (int p = kLoaded; p < kPanels; ++p)
          acc[r * kPanels + p] = DotMemory(acc[r * kPanels + p], a, w + p * panel_bytes);
      }
    }
  }
  // What follows must not change where the loop keeps its sums.
#pragma GCC unroll 32
  for (int i = 0; i < kRows * kPanels; ++i) asm("" : "+v"(acc[i]));
  if (kEnd != End::kAny && tile.w_zero != nullptr) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const __m512i sum = _mm512_set1_epi32(tile.row_sums[r]);
#pragma GCC unroll 4
      for (int p = 0; p < kPanels; ++p) {
        __m512i& a = acc[r * kPanels + p];
        a = _mm512_sub_epi32(a, _mm512_mullo_epi32(sum, _mm512_loadu_si512(tile.w_zero + 16 * p)));
      }
    }
  }
  if constexpr (kEnd == End::kInts) {
    uint8_t* y = tile.y;
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r, y += tile.y_stride) {
#pragma GCC unroll 4
      for (int p = 0; p < kPanels; ++p) _mm512_storeu_si512(y + 64 * p, acc[r * kPanels + p]);
    }
  } else if constexpr (kEnd == End::kFloats) {
    StoreRowsOfFloats<kRows, kPanels>(tile, acc);
  } else if constexpr (kEnd != End::kAny) {
    StoreRowsOfBytes<kRows, kPanels, kEnd == End::kBytesWithResidual>(tile, acc);
  } else {
    __m512i sums[(kRows * kPanels + 3) / 4 * 4];
#pragma GCC unroll 32
    for (int i = 0; i < kRows * kPanels; ++i) sums[i] = acc[i];
    FinishTile<kPanels>(tile, sums);
  }
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
template <int kPanels>
constexpr std::array<TileFn, 15> kTiles[] = {
    TilesOf<kPanels, End::kAny>(std::make_integer_sequence<int, kPanels == 4 ? 7 : 14>()),
    TilesOf<kPanels, End::kBytes>(std::make_integer_sequence<int, kPanels == 4 ? 7 : 14>()),
    TilesOf<kPanels, End::kBytesWithResidual>(
        std::make_integer_sequence<int, kPanels == 4 ? 7 : 14>()),
    TilesOf<kPanels, End::kInts>(std::make_integer_sequence<int, kPanels == 4 ? 7 : 14>()),
    TilesOf<kPanels, End::kFloats>(std::make_integer_sequence<int, kPanels == 4 ? 7 : 14>())};

End EndOf(const Int8Tile& tile) {
  const bool whole = (tile.first_mask & tile.last_mask & 0xffff) == 0xffff;
  if (!whole) return End::kAny;
  if (tile.output == Int8Output::kInt32) return End::kInts;
  if (tile.output == Int8Output::kFloat32)
    return tile.residual_type == Int8Residual::kNone && !tile.leaky ? End::kFloats : End::kAny;
  if (tile.output != Int8Output::kInt8 || !tile.small || tile.leaky) return End::kAny;
  if (tile.residual_type == Int8Residual::kNone) return End::kBytes;
  return tile.residual_type == Int8Residual::kFloat32 ? End::kAny : End::kBytesWithResidual;
}

constexpr TileFn kLanes[15] = {nullptr,      LaneTile<1>,  LaneTile<2>,  LaneTile<3>,
                               LaneTile<4>,  LaneTile<5>,  LaneTile<6>,  LaneTile<7>,
                               LaneTile<8>,  LaneTile<9>,  LaneTile<10>, LaneTile<11>,
                               LaneTile<12>, LaneTile<13>, LaneTile<14>};

void RunTile(const Int8Tile& tile) {
  if (tile.lanes != nullptr) return kLanes[tile.row_count](tile);
  const auto* const tiles = tile.panel_count == 1   ? kTiles<1>
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
  kInt8TileScalar.expand3(from, to, pixels, flip);
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

const Int8TileDef kInt8TileAvx512 = {"avx512", 4,         {0, 14, 14, 7, 7}, true,     true,
                                     RunTile,  Depthwise, SumRows,           Pointers, Expand3};

}  // namespace evoq
