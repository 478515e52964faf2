// How AVX-512 tiles of integer products end: from int32 sums with their bias to the stored output,
// the formulas of gemm_int8_tile.h. Sums are vectors of 16 columns, sums[row * kPanels + panel],
// and stand in memory (FinishTile) or in registers (StoreTile): one code, in which `kRows` is 0 or
// the number of rows. Included inside instruction-set files only.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/gemm/gemm_int8_tile.h"

namespace evoq {
namespace {

// Calls step(r, p) for each vector of a tile: unrolled where the number of rows is known.
template <int kRows, int kPanels, typename Step>
[[gnu::always_inline]] inline void EachVector(const Int8Tile& tile, const Step& step) {
  if constexpr (kRows > 0) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int p = 0; p < kPanels; ++p) step(r, p);
    }
  } else {
    for (int p = 0; p < kPanels; ++p) {
      for (int r = 0; r < tile.row_count; ++r) step(r, p);
    }
  }
}

// The columns of panel p that are stored: all of them where sums stand in registers.
template <int kRows, int kPanels>
[[gnu::always_inline]] inline __mmask16 StoredColumns(const Int8Tile& tile, int p) {
  if constexpr (kRows > 0) return 0xffff;
  return static_cast<__mmask16>((p == 0 ? tile.first_mask : 0xffff) &
                                (p == kPanels - 1 ? tile.last_mask : 0xffff));
}

// For a mask that is nearly always full, where a store under a mask takes longer.
[[gnu::always_inline]] inline void StoreWords(uint8_t* y, __mmask16 mask, __m512i words) {
  if (mask == 0xffff) {
    _mm512_storeu_si512(y, words);
  } else {
    _mm512_mask_storeu_epi32(y, mask, words);
  }
}
[[gnu::always_inline]] inline void StoreBytes(uint8_t* y, __mmask16 mask, __m128i bytes) {
  if (mask == 0xffff) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(y), bytes);
  } else {
    _mm_mask_storeu_epi8(y, mask, bytes);
  }
}

[[gnu::always_inline]] inline __m512 AddByteResidual(const Int8Tile& tile, const uint8_t* residual,
                                                     __mmask16 mask, __m512 v) {
  const __m128i bytes = mask == 0xffff ? _mm_loadu_si128(reinterpret_cast<const __m128i*>(residual))
                                       : _mm_maskz_loadu_epi8(mask, residual);
  const __m512i q = tile.residual_type == Int8Residual::kUint8 ? _mm512_cvtepu8_epi32(bytes)
                                                               : _mm512_cvtepi8_epi32(bytes);
  const __m512 real =
      _mm512_cvtepi32_ps(_mm512_sub_epi32(q, _mm512_set1_epi32(tile.residual_zero)));
  return _mm512_add_ps(v, _mm512_mul_ps(real, _mm512_set1_ps(tile.residual_multiplier)));
}

[[gnu::always_inline]] inline __m512 AddResidual(const Int8Tile& tile, int row, int column,
                                                 __mmask16 mask, __m512 v) {
  const uint8_t* r = tile.residual + row * tile.residual_stride;
  if (tile.residual_type != Int8Residual::kFloat32)
    return AddByteResidual(tile, r + column, mask, v);
  return _mm512_add_ps(v, _mm512_maskz_loadu_ps(mask, r + 4 * column));
}

[[gnu::always_inline]] inline __m512 Sloped(const Int8Tile& tile, int p, __m512 v) {
  const __mmask16 negative = _mm512_cmp_ps_mask(v, _mm512_setzero_ps(), _CMP_LT_OQ);
  return _mm512_mask_mul_ps(v, negative, v, _mm512_loadu_ps(tile.slopes + 16 * p));
}

[[gnu::always_inline]] inline __m512 Scaled(const Int8Tile& tile, __m512i sum, int p) {
  return _mm512_mul_ps(_mm512_cvtepi32_ps(sum), _mm512_loadu_ps(tile.multiplier + 16 * p));
}

// Takes the zero points of the weights, where they have any, out of the sums.
template <int kRows, int kPanels>
[[gnu::always_inline]] inline void SubtractZeros(const Int8Tile& tile, __m512i* sums) {
  if (tile.w_zero == nullptr) return;
  EachVector<kRows, kPanels>(tile, [&](int r, int p) __attribute__((always_inline)) {
    const __m512i zero = _mm512_loadu_si512(tile.w_zero + 16 * p);
    __m512i& sum = sums[r * kPanels + p];
    sum = _mm512_sub_epi32(sum, _mm512_mullo_epi32(zero, _mm512_set1_epi32(tile.row_sums[r])));
  });
}

template <int kRows, int kPanels>
[[gnu::always_inline]] inline void FinishInts(const Int8Tile& tile, const __m512i* sums) {
  EachVector<kRows, kPanels>(tile, [&](int r, int p) __attribute__((always_inline)) {
    StoreWords(tile.y + r * tile.y_stride + 64 * p, StoredColumns<kRows, kPanels>(tile, p),
               sums[r * kPanels + p]);
  });
}

// What is stored, for Int8Tile::range.
struct FloatRange {
  __m512 least = _mm512_setzero_ps(), most = least;

  [[gnu::always_inline]] inline void Add(__mmask16 mask, __m512 v) {  // a NaN leaves the other one
    least = mask == 0xffff ? _mm512_min_ps(v, least) : _mm512_mask_min_ps(least, mask, v, least);
    most = mask == 0xffff ? _mm512_max_ps(v, most) : _mm512_mask_max_ps(most, mask, v, most);
  }
  [[gnu::always_inline]] inline void Store(float* range) const {
    _mm512_storeu_ps(range, _mm512_min_ps(least, _mm512_loadu_ps(range)));
    _mm512_storeu_ps(range + 16, _mm512_max_ps(most, _mm512_loadu_ps(range + 16)));
  }
};

template <int kPanels>
inline void FinishFloatsInMemory(const Int8Tile& tile, const __m512i* sums) {
  const bool has_range = tile.range != nullptr;
  FloatRange range;
  EachVector<0, kPanels>(tile, [&](int r, int p) __attribute__((always_inline)) {
    const __mmask16 mask = StoredColumns<0, kPanels>(tile, p);
    __m512 v = Scaled(tile, sums[r * kPanels + p], p);
    if (tile.offset != nullptr) v = _mm512_add_ps(v, _mm512_loadu_ps(tile.offset + 16 * p));
    if (tile.residual_type != Int8Residual::kNone) v = AddResidual(tile, r, 16 * p, mask, v);
    if (tile.slopes != nullptr) v = Sloped(tile, p, v);
    if (tile.clamp)
      v = _mm512_min_ps(_mm512_set1_ps(tile.high), _mm512_max_ps(_mm512_set1_ps(tile.low), v));
    if (has_range) range.Add(mask, v);
    StoreWords(tile.y + r * tile.y_stride + 64 * p, mask, _mm512_castps_si512(v));
  });
  if (has_range) range.Store(tile.range);
}

// Of all columns, with neither a residual nor slopes. What a tile need not have is done to all
// vectors at once: asked for one by one it would be code for each.
template <int kRows, int kPanels>
[[gnu::always_inline]] inline void FinishFloats(const Int8Tile& tile, const __m512i* sums) {
  __m512 v[kRows * kPanels];
  const auto each = [&](const auto& step) __attribute__((always_inline)) {
    EachVector<kRows, kPanels>(
        tile, [&](int r, int p) __attribute__((always_inline)) { step(v[r * kPanels + p], r, p); });
  };
  each([&](__m512& x, int r, int p)
           __attribute__((always_inline)) { x = Scaled(tile, sums[r * kPanels + p], p); });
  if (tile.offset != nullptr) {
    each([&](__m512& x, int, int p) __attribute__((always_inline)) {
      x = _mm512_add_ps(x, _mm512_loadu_ps(tile.offset + 16 * p));
    });
  }
  if (tile.clamp) {
    const __m512 lowest = _mm512_set1_ps(tile.low), highest = _mm512_set1_ps(tile.high);
    each([&](__m512& x, int, int) __attribute__((always_inline)) {
      x = _mm512_min_ps(highest, _mm512_max_ps(lowest, x));
    });
  }
  if (tile.range != nullptr) {
    FloatRange range;
    each([&](const __m512& x, int, int) __attribute__((always_inline)) { range.Add(0xffff, x); });
    range.Store(tile.range);
  }
  each([&](const __m512& x, int r, int p) __attribute__((always_inline)) {
    _mm512_storeu_ps(tile.y + r * tile.y_stride + 64 * p, x);
  });
}

// 8-bit outputs of any size: a vector at a time.
template <int kPanels>
inline void FinishWideBytes(const Int8Tile& tile, const __m512i* sums) {
  EachVector<0, kPanels>(tile, [&](int r, int p) __attribute__((always_inline)) {
    const __mmask16 mask = StoredColumns<0, kPanels>(tile, p);
    __m512 v = Scaled(tile, sums[r * kPanels + p], p);
    if (tile.residual_type != Int8Residual::kNone) v = AddResidual(tile, r, 16 * p, mask, v);
    if (tile.slopes != nullptr) v = Sloped(tile, p, v);
    v = _mm512_min_ps(_mm512_set1_ps(tile.high), _mm512_max_ps(_mm512_set1_ps(tile.low), v));
    const __m512i q = _mm512_add_epi32(_mm512_cvtps_epi32(v), _mm512_set1_epi32(tile.y_zero));
    _mm_mask_storeu_epi8(tile.y + r * tile.y_stride + 16 * p, mask, _mm512_cvtepi32_epi8(q));
  });
}

// What turns `small` values into bytes.
struct ByteEnds {
  int16_t zero;
  char low, high, flip;
  bool clamp;  // more than the saturation to uint8

  explicit ByteEnds(const Int8Tile& tile) {
    const int32_t stored_zero = tile.y_zero + tile.y_flip;
    const int32_t lowest = static_cast<int32_t>(tile.low) + stored_zero,
                  highest = static_cast<int32_t>(tile.high) + stored_zero;
    zero = static_cast<int16_t>(stored_zero);
    low = static_cast<char>(lowest);
    high = static_cast<char>(highest);
    flip = static_cast<char>(tile.y_flip);
    clamp = lowest != 0 || highest != 255 || tile.y_flip != 0;
  }
};

// Four vectors of rounded values as 64 bytes, in their order.
[[gnu::always_inline]] inline __m512i Narrow(const ByteEnds& ends, const __m512i (&q)[4]) {
  const __m512i zeros = _mm512_set1_epi16(ends.zero);
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m512i q01 = _mm512_adds_epi16(_mm512_packs_epi32(q[0], q[1]), zeros);
  const __m512i q23 = _mm512_adds_epi16(_mm512_packs_epi32(q[2], q[3]), zeros);
  __m512i bytes = _mm512_packus_epi16(q01, q23);
  if (ends.clamp) {
    bytes = _mm512_max_epu8(bytes, _mm512_set1_epi8(ends.low));
    bytes = _mm512_min_epu8(bytes, _mm512_set1_epi8(ends.high));
    bytes = _mm512_xor_si512(bytes, _mm512_set1_epi8(ends.flip));
  }
  return _mm512_permutexvar_epi32(order, bytes);
}

// 64 bytes as `left` (at most four) vectors of whole rows of kPanels. `together`: neighbouring rows
// touch.
template <int kPanels>
[[gnu::always_inline]] inline void StoreWhole(uint8_t* y, int64_t y_stride, int left, bool together,
                                              __m512i bytes) {
  if (kPanels == 4 || (together && left >= 4)) {
    _mm512_storeu_si512(y, bytes);
  } else if (kPanels == 2) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(y), _mm512_castsi512_si256(bytes));
    if (left > 2)
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(y + y_stride),
                          _mm512_extracti64x4_epi64(bytes, 1));
  } else {
    const auto at = [&](int row) { return reinterpret_cast<__m128i*>(y + row * y_stride); };
    _mm_storeu_si128(at(0), _mm512_castsi512_si128(bytes));
    if (left > 1) _mm_storeu_si128(at(1), _mm512_extracti32x4_epi32(bytes, 1));
    if (left > 2) _mm_storeu_si128(at(2), _mm512_extracti32x4_epi32(bytes, 2));
    if (left > 3) _mm_storeu_si128(at(3), _mm512_extracti32x4_epi32(bytes, 3));
  }
}

// 8-bit outputs whose values are `small`: four vectors narrow together. In memory, sums are padded
// to whole fours. In registers, slopes are looked for at run time: tiles of their own would be
// many.
template <int kRows, int kPanels, bool kResidual, bool kSlopes>
[[gnu::always_inline]] inline void FinishBytes(const Int8Tile& tile, const __m512i* sums) {
  const int count = kRows > 0 ? kRows * kPanels : tile.row_count * kPanels;
  const ByteEnds ends(tile);
  __mmask16 mask[4];
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) mask[j] = StoredColumns<kRows, kPanels>(tile, j % kPanels);
  const bool whole = kRows > 0 || (mask[0] & mask[1] & mask[2] & mask[3]) == 0xffff;
  const bool together = kRows == 0 && tile.y_stride == 16 * kPanels;
  const auto step = [&](int i) __attribute__((always_inline)) {
    __m512i q[4] = {};
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      if (kRows > 0 && i + j >= count) continue;
      __m512 v = Scaled(tile, sums[i + j], j % kPanels);
      if (kResidual && i + j < count) {
        const int64_t row = (i + j) / kPanels;
        v = AddByteResidual(tile, tile.residual + row * tile.residual_stride + j % kPanels * 16,
                            mask[j], v);
      }
      if (kSlopes || (kRows > 0 && !kResidual && tile.slopes != nullptr))
        v = Sloped(tile, j % kPanels, v);
      q[j] = _mm512_cvtps_epi32(v);
    }
    const __m512i bytes = Narrow(ends, q);
    uint8_t* const y = tile.y + i / kPanels * tile.y_stride;
    const int left = count - i;
    if (whole) return StoreWhole<kPanels>(y, tile.y_stride, left, together, bytes);
    const auto at = [&](int j) { return y + j / kPanels * tile.y_stride + j % kPanels * 16; };
    StoreBytes(at(0), mask[0], _mm512_castsi512_si128(bytes));
    if (left > 1) StoreBytes(at(1), mask[1], _mm512_extracti32x4_epi32(bytes, 1));
    if (left > 2) StoreBytes(at(2), mask[2], _mm512_extracti32x4_epi32(bytes, 2));
    if (left > 3) StoreBytes(at(3), mask[3], _mm512_extracti32x4_epi32(bytes, 3));
  };
  if constexpr (kRows > 0) {
#pragma GCC unroll 8
    for (int i = 0; i < kRows * kPanels; i += 4) step(i);
  } else {
    for (int i = 0; i < count; i += 4) step(i);
  }
}

// Any tile, from sums in memory, padded to whole fours. Out of line: it would cost a tile its
// registers.
template <int kPanels>
[[gnu::noinline]] void FinishTile(const Int8Tile& tile, __m512i* sums) {
  SubtractZeros<0, kPanels>(tile, sums);
  if (tile.output == Int8Output::kFloat32) return FinishFloatsInMemory<kPanels>(tile, sums);
  if (tile.output == Int8Output::kInt32) return FinishInts<0, kPanels>(tile, sums);
  if (!tile.small) return FinishWideBytes<kPanels>(tile, sums);
  if (tile.residual_type != Int8Residual::kNone) {
    if (tile.slopes != nullptr) return FinishBytes<0, kPanels, true, true>(tile, sums);
    return FinishBytes<0, kPanels, true, false>(tile, sums);
  }
  if (tile.slopes != nullptr) return FinishBytes<0, kPanels, false, true>(tile, sums);
  FinishBytes<0, kPanels, false, false>(tile, sums);
}

// How a tile ends: through FinishTile, or, where all columns are stored, straight from registers.
enum class End { kAny, kBytes, kBytesWithResidual, kInts, kFloats };
inline constexpr int kEnds = 5;

inline End EndOf(const Int8Tile& tile) {
  const bool whole = (tile.first_mask & tile.last_mask & 0xffff) == 0xffff;
  if (!whole) return End::kAny;
  if (tile.output == Int8Output::kInt32) return End::kInts;
  if (tile.output == Int8Output::kFloat32)
    return tile.residual_type == Int8Residual::kNone && tile.slopes == nullptr ? End::kFloats
                                                                               : End::kAny;
  if (!tile.small) return End::kAny;
  if (tile.residual_type == Int8Residual::kNone) return End::kBytes;
  return tile.residual_type == Int8Residual::kFloat32 || tile.slopes != nullptr
             ? End::kAny
             : End::kBytesWithResidual;
}

// Ends a tile whose sums stand in registers.
template <End kEnd, int kRows, int kPanels>
[[gnu::always_inline]] inline void StoreTile(const Int8Tile& tile, __m512i* acc) {
  if constexpr (kEnd == End::kAny) {
    __m512i sums[(kRows * kPanels + 3) / 4 * 4];
#pragma GCC unroll 32
    for (int i = 0; i < kRows * kPanels; ++i) sums[i] = acc[i];
    return FinishTile<kPanels>(tile, sums);
  }
  SubtractZeros<kRows, kPanels>(tile, acc);
  if constexpr (kEnd == End::kInts) FinishInts<kRows, kPanels>(tile, acc);
  if constexpr (kEnd == End::kFloats) FinishFloats<kRows, kPanels>(tile, acc);
  if constexpr (kEnd == End::kBytes) FinishBytes<kRows, kPanels, false, false>(tile, acc);
  if constexpr (kEnd == End::kBytesWithResidual)
    FinishBytes<kRows, kPanels, true, false>(tile, acc);
}

}  // namespace
}  // namespace evoq
