// A part of a vector in memory. Included inside instruction-set files only.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace evoq {
namespace {

inline __m128i LoadFour(const uint8_t* x) {
  int32_t four;
  __builtin_memcpy(&four, x, 4);
  return _mm_cvtsi32_si128(four);
}

// n bytes, 0 < n < 16, and zeros behind them.
inline __m128i LoadPart(const uint8_t* x, int64_t n) {
  if (n >= 8) {
    const __m128i low = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(x));
    if (n == 8) return low;
    const __m128i end = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(x + n - 8));
    return _mm_unpacklo_epi64(low, _mm_srl_epi64(end, _mm_cvtsi64_si128(8 * (16 - n))));
  }
  if (n >= 4) {
    const __m128i end = _mm_srl_epi64(LoadFour(x + n - 4), _mm_cvtsi64_si128(8 * (8 - n)));
    return _mm_unpacklo_epi32(LoadFour(x), end);
  }
  uint32_t low = x[0];
  if (n > 1) low |= uint32_t{x[1]} << 8;
  if (n > 2) low |= uint32_t{x[2]} << 16;
  return _mm_cvtsi32_si128(static_cast<int>(low));
}

// The first n bytes, n <= 16.
inline void StorePart(uint8_t* y, __m128i v, int64_t n) {
  if (n >= 8) {
    _mm_storel_epi64(reinterpret_cast<__m128i*>(y), v);
    if (n == 8) return;
    alignas(16) static constexpr uint8_t kPlaces[24] = {
        0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 16, 16, 16, 16, 16, 16, 16};
    const __m128i places = _mm_loadu_si128(reinterpret_cast<const __m128i*>(kPlaces + n - 8));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(y + n - 8), _mm_shuffle_epi8(v, places));
    return;
  }
  uint64_t bytes = static_cast<uint64_t>(_mm_cvtsi128_si64(v));
  if ((n & 4) != 0) {
    const auto four = static_cast<uint32_t>(bytes);
    __builtin_memcpy(y, &four, 4);
    bytes >>= 32;
    y += 4;
  }
  for (int64_t i = 0; i < (n & 3); ++i, bytes >>= 8) y[i] = static_cast<uint8_t>(bytes);
}

}  // namespace
}  // namespace evoq
