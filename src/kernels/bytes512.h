// 64 bytes at a time with AVX-512, for files *_avx512.cc: widening and narrowing stay inside the
// registers' 128-bit lanes, so that what Narrow packs is in the order that Widen unpacked.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/bounds.h"

namespace evoq::avx512 {
namespace {

inline __mmask64 FirstBytes(int64_t n) { return n >= 64 ? ~__mmask64{0} : (__mmask64{1} << n) - 1; }

// 64 bytes from p[i], or the `n - i` that are left; unmasked where there are 64.
struct Span {
  int64_t n;

  // body(i, load, store) for i = 0, 64, ...
  template <typename Body>
  inline __attribute__((always_inline)) void ForEach(const Body& body) const {
    int64_t i = 0;
    for (; i + 64 <= n; i += 64) {
      body(
          i, [](const uint8_t* p) { return _mm512_loadu_si512(p); },
          [](uint8_t* p, __m512i v) { _mm512_storeu_si512(p, v); });
    }
    if (i == n) return;
    const __mmask64 mask = FirstBytes(n - i);
    body(
        i, [mask](const uint8_t* p) { return _mm512_maskz_loadu_epi8(mask, p); },
        [mask](uint8_t* p, __m512i v) { _mm512_mask_storeu_epi8(p, mask, v); });
  }
};

// The bytes as 2 x 32 signed 16-bit integers less `zero`.
struct Words {
  __m512i part[2];
};
inline Words WidenBytes(__m512i bytes, __m512i zero) {
  const __m512i none = _mm512_setzero_si512();
  return {{_mm512_sub_epi16(_mm512_unpacklo_epi8(bytes, none), zero),
           _mm512_sub_epi16(_mm512_unpackhi_epi8(bytes, none), zero)}};
}

// The bytes as 4 x 16 floats 2^23 + byte.
struct Floats {
  __m512 part[4];
};
inline Floats WidenRaised(__m512i bytes) {
  const __m512i none = _mm512_setzero_si512(), exponent = _mm512_set1_epi16(0x4B00);
  const __m512i low = _mm512_unpacklo_epi8(bytes, none), high = _mm512_unpackhi_epi8(bytes, none);
  return {{_mm512_castsi512_ps(_mm512_unpacklo_epi16(low, exponent)),
           _mm512_castsi512_ps(_mm512_unpackhi_epi16(low, exponent)),
           _mm512_castsi512_ps(_mm512_unpacklo_epi16(high, exponent)),
           _mm512_castsi512_ps(_mm512_unpackhi_epi16(high, exponent))}};
}
// What to subtract from WidenRaised for `byte - zero`, exactly.
inline __m512 Raised(int32_t zero) { return _mm512_set1_ps(8388608.0f + static_cast<float>(zero)); }

// round_half_even(v) + zero in 16 bits, saturated, for |v| < 2^31: what is packed next.
inline Words RoundToWords(const Floats& v, __m512i zero16) {
  const __m512i low =
      _mm512_packs_epi32(_mm512_cvtps_epi32(v.part[0]), _mm512_cvtps_epi32(v.part[1]));
  const __m512i high =
      _mm512_packs_epi32(_mm512_cvtps_epi32(v.part[2]), _mm512_cvtps_epi32(v.part[3]));
  return {{_mm512_adds_epi16(low, zero16), _mm512_adds_epi16(high, zero16)}};
}
// saturate(round_half_even(v) + zero) as uint8 or int8.
inline __m512i NarrowUnsigned(const Floats& v, __m512i zero16) {
  const Words w = RoundToWords(v, zero16);
  return _mm512_packus_epi16(w.part[0], w.part[1]);
}
[[maybe_unused]] inline __m512i NarrowSigned(const Floats& v, __m512i zero16) {
  const Words w = RoundToWords(v, zero16);
  return _mm512_packs_epi16(w.part[0], w.part[1]);
}

// Clamping after rounding is clamping before it: rounding is monotone.
struct ByteClamp {
  __m512i zero, low, high;

  explicit ByteClamp(const OutputBounds& b)
      : zero(_mm512_set1_epi16(static_cast<int16_t>(b.zero))),
        low(_mm512_set1_epi8(
            static_cast<char>(static_cast<int32_t>(__builtin_nearbyintf(b.low)) + b.zero))),
        high(_mm512_set1_epi8(
            static_cast<char>(static_cast<int32_t>(__builtin_nearbyintf(b.high)) + b.zero))) {}
  __m512i Clamp(__m512i bytes) const { return _mm512_min_epu8(_mm512_max_epu8(bytes, low), high); }
  __m512i Finish(const Floats& v) const { return Clamp(NarrowUnsigned(v, zero)); }
};

}  // namespace
}  // namespace evoq::avx512
