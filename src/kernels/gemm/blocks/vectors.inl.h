// What product.inl.h computes with on one instruction set, for 16 columns: Bytes, a line of four
// unsigned bytes each; Ints, a sum each; Floats.
#include <cmath>
#include <cstring>

#include "kernels/gemm/blocks/block_data.h"
#include "kernels/gemm/blocks/product.h"
#include "kernels/variants.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace evoq::EVOQ_ISA {
namespace {

EVOQ_ALWAYS_INLINE int32_t Four(const int8_t* q) {
  int32_t four;
  __builtin_memcpy(&four, q, 4);
  return four;
}

#if defined(__AVX2__)
// Partial sums of the integers of a block.
using BlockSum = __m256i;
// Of four blocks, times a factor.
inline void SumsTimes(const BlockSum (&sums)[4], int32_t factor, int32_t (&products)[4]) {
  const __m256i four =
      _mm256_hadd_epi32(_mm256_hadd_epi32(sums[0], sums[1]), _mm256_hadd_epi32(sums[2], sums[3]));
  const __m128i all =
      _mm_add_epi32(_mm256_castsi256_si128(four), _mm256_extracti128_si256(four, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(products),
                   _mm_mullo_epi32(all, _mm_set1_epi32(factor)));
}
#endif

#if defined(__AVX512BW__)
constexpr int kMaxRows = kFewVariants ? 2 : 6, kWideRows = kMaxRows;
constexpr int kRegisters = 32, kRegistersOfFloats = 1;
constexpr bool kSignedBytes = false;        // whether bytes of 8 bits are multiplied as signed ones
constexpr int64_t kDirectRows = INT64_MAX;  // unpacking hides beside so many products
constexpr int64_t kStepRows = kFewVariants ? 4 : 64;  // of more, unpacking costs less than it saves
// Where it does not (CpuModel::one_set_of_ports): rows of the tallest tiles, of unpacked lines and
// of those that are taken apart in registers.
#define EVOQ_TALL_TILES
constexpr int kTallRows = kFewVariants ? 3 : 14, kTallDirectRows = kFewVariants ? 3 : 12;
constexpr int kNestedRows = kFewVariants ? 3 : 7;
using Bytes = __m512i;
using Ints = __m512i;
using Floats = __m512;
using Quad = __m512i;  // four bytes of the data, in every lane

inline Bytes LoadBytes(const uint8_t* p) { return _mm512_loadu_si512(p); }
inline void StoreBytes(uint8_t* p, Bytes x) { _mm512_storeu_si512(p, x); }
// Elements of kBits: the i-th of each byte, from the lowest.
template <int kBits>
EVOQ_ALWAYS_INLINE Bytes Bits(Bytes x, int i) {
  if (i > 0) x = _mm512_srli_epi16(x, kBits * i);
  return _mm512_and_si512(x, _mm512_set1_epi8((1 << kBits) - 1));
}
inline Bytes LookUp(const uint8_t (&table)[16], Bytes i) {
  return _mm512_shuffle_epi8(
      _mm512_broadcast_i32x4(_mm_load_si128(reinterpret_cast<const __m128i*>(table))), i);
}
inline Bytes Flip(Bytes x) { return _mm512_xor_si512(x, _mm512_set1_epi8(-128)); }
inline Quad Spread(const int8_t* q) { return _mm512_set1_epi32(Four(q)); }
template <bool kSmall>
EVOQ_ALWAYS_INLINE Ints Dot(Ints sum, Bytes u, Quad q) {
  return _mm512_dpbusd_epi32(sum, u, q);
}
inline Ints All(int32_t x) { return _mm512_set1_epi32(x); }
// (p[n] - less) * x
inline Ints Times(const uint8_t* p, int32_t less, int32_t x) {
  return _mm512_mullo_epi32(
      _mm512_sub_epi32(_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))),
                       _mm512_set1_epi32(less)),
      _mm512_set1_epi32(x));
}
// p[n] * x of an x that fits int16.
inline Ints TimesSmall(const uint8_t* p, int32_t x) {
  return _mm512_madd_epi16(
      _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))),
      _mm512_set1_epi32(x));
}
// Of ScaleSteps: bits [shift, shift + 4) of words; a number in both halves of its lane, and in its
// four bytes; u * pairs + added, of products below 256.
inline Ints LoadWords(const uint16_t* words) {
  return _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(words)));
}
inline Ints LowNibbles(Ints x) { return _mm512_and_si512(x, _mm512_set1_epi32(15)); }
inline Ints NextNibbles(Ints x) { return _mm512_srli_epi32(x, 4); }
inline Ints Multiples(const uint16_t* words, int shift) {
  return LowNibbles(_mm512_srl_epi32(LoadWords(words), _mm_cvtsi32_si128(shift)));
}
inline Ints TimesInts(Ints x, int32_t by) { return _mm512_mullo_epi32(x, _mm512_set1_epi32(by)); }
// The bits of integers that are kept where floats are; plus products of numbers that fit int16, of
// which m is none below 0.
inline Ints AsInts(Floats x) { return _mm512_castps_si512(x); }
inline Floats AddShortProducts(Floats ints, Ints x, Ints m) {
  return _mm512_castsi512_ps(_mm512_dpwssd_epi32(AsInts(ints), x, m));
}
inline Ints InPairs(Ints x) { return TimesInts(x, 0x10001); }
inline Ints InBytes(Ints x) { return TimesInts(x, 0x1010101); }
inline Bytes TimesPairsPlus(Bytes u, Ints pairs, Ints added) {
  return _mm512_add_epi8(_mm512_mullo_epi16(u, pairs), added);
}
inline Floats ToFloats(Ints x) { return _mm512_cvtepi32_ps(x); }
inline Floats AllF(float x) { return _mm512_set1_ps(x); }
inline Floats LoadF(const float* p) { return _mm512_loadu_ps(p); }
inline Floats LoadHalf(const uint16_t* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
inline Floats LoadF(const float* p, int n) {
  return _mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << n) - 1), p);
}
inline void StoreF(float* p, int n, Floats x) {
  _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << n) - 1), x);
}
inline Floats Mul(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
inline Floats Add(Floats a, Floats b) { return _mm512_add_ps(a, b); }
inline Floats MulAdd(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
// Of rounding data: the bits of magnitudes, which compare as integers.
inline Ints Magnitudes(Floats x) {
  return _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(0x7fffffff));
}
inline Ints MaxInts(Ints a, Ints b) { return _mm512_max_epi32(a, b); }
inline Ints AddInts(Ints a, Ints b) { return _mm512_add_epi32(a, b); }
inline int32_t LargestOf(Ints x) { return _mm512_reduce_max_epi32(x); }
inline int32_t SumOf(Ints x) { return _mm512_reduce_add_epi32(x); }
inline Ints RoundToInts(Floats x, float inverse) {
  const Floats round = _mm512_set1_ps(kBlockRound);
  return _mm512_sub_epi32(
      _mm512_castps_si512(_mm512_add_ps(_mm512_mul_ps(x, _mm512_set1_ps(inverse)), round)),
      _mm512_castps_si512(round));
}
inline void StoreInt8(int8_t* p, int n, Ints x) {
  const __m128i bytes = _mm512_cvtepi32_epi8(x);
  if (n == 16) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), bytes);
  } else {
    _mm_mask_storeu_epi8(p, static_cast<__mmask16>((1u << n) - 1), bytes);
  }
}
inline BlockSum Round32(const float* x, float inverse, int8_t* q) {
  const Floats by = _mm512_set1_ps(inverse);
  const auto round = [&](const float* at) {
    return _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(at), by));
  };
  // Of each 128 bits four of the first and four of the second 16 numbers.
  const __m512i mixed = _mm512_packs_epi32(round(x), round(x + 16));
  const __m256i bytes = _mm512_cvtepi16_epi8(
      _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), mixed));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(q), bytes);
  return _mm256_dpbusd_epi32(_mm256_setzero_si256(), _mm256_set1_epi8(1), bytes);
}
#elif defined(__AVX2__)
constexpr int kMaxRows = kFewVariants ? 2 : 4, kWideRows = 1;
constexpr int kRegisters = 16, kRegistersOfFloats = 2;
#if defined(EVOQ_DPBUSD)
constexpr bool kSignedBytes = false;
constexpr int64_t kDirectRows = 32, kStepRows = kFewVariants ? 4 : 32;
#else
constexpr int64_t kStepRows = INT64_MAX;  // whose bytes are too large for sums of int16
constexpr bool kSignedBytes = true;
constexpr int64_t kDirectRows = INT64_MAX;  // a line taken apart for four rows costs as much
#endif
struct Bytes {
  __m256i low, high;
};
using Ints = Bytes;
struct Floats {
  __m256 low, high;
};
using Quad = __m256i;

inline __m256i Load256(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
inline Bytes LoadBytes(const uint8_t* p) { return {Load256(p), Load256(p + 32)}; }
inline void StoreBytes(uint8_t* p, Bytes x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), x.low);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 32), x.high);
}
template <int kBits>
EVOQ_ALWAYS_INLINE Bytes Bits(Bytes x, int i) {
  if (i > 0) x = {_mm256_srli_epi16(x.low, kBits * i), _mm256_srli_epi16(x.high, kBits * i)};
  const __m256i mask = _mm256_set1_epi8((1 << kBits) - 1);
  return {_mm256_and_si256(x.low, mask), _mm256_and_si256(x.high, mask)};
}
inline Bytes LookUp(const uint8_t (&table)[16], Bytes i) {
  const __m256i t =
      _mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(table)));
  return {_mm256_shuffle_epi8(t, i.low), _mm256_shuffle_epi8(t, i.high)};
}
inline Bytes Flip(Bytes x) {
  const __m256i bit = _mm256_set1_epi8(-128);
  return {_mm256_xor_si256(x.low, bit), _mm256_xor_si256(x.high, bit)};
}
inline Quad Spread(const int8_t* q) { return _mm256_set1_epi32(Four(q)); }
#if defined(EVOQ_DPBUSD)
template <bool kSmall>
EVOQ_ALWAYS_INLINE Ints Dot(Ints sum, Bytes u, Quad q) {
  return {EVOQ_DPBUSD(sum.low, u.low, q), EVOQ_DPBUSD(sum.high, u.high, q)};
}
#else
#define EVOQ_FOLDS_PAIRS
// Products with u below 128, and those of a pair of bytes, fit int16. Bytes of 8 bits are signed
// (kSignedBytes): |w| <= 128 times the data, |q| <= 127, with the sign of w.
EVOQ_ALWAYS_INLINE __m256i SumOfPairs(__m256i sum, __m256i pairs) {
  return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}
template <bool kSmall>
EVOQ_ALWAYS_INLINE __m256i PairsOf(__m256i u, __m256i q) {
  if constexpr (kSmall) return _mm256_maddubs_epi16(u, q);
  return _mm256_maddubs_epi16(_mm256_abs_epi8(u), _mm256_sign_epi8(q, u));
}
template <bool kSmall>
EVOQ_ALWAYS_INLINE Ints Dot(Ints sum, Bytes u, Quad q) {
  return {SumOfPairs(sum.low, PairsOf<kSmall>(u.low, q)),
          SumOfPairs(sum.high, PairsOf<kSmall>(u.high, q))};
}
// Sums of several pairs in int16, which become sums of Ints together.
using Pairs16 = Bytes;
EVOQ_ALWAYS_INLINE Pairs16 NoPairs() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
EVOQ_ALWAYS_INLINE __m256i AddPairs(__m256i sum, __m256i u, __m256i q) {
  sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(u, q));
  __asm__("" : "+x"(sum));  // or else sums become trees of more registers than there are
  return sum;
}
EVOQ_ALWAYS_INLINE Pairs16 AddPairs(Pairs16 sum, Bytes u, Quad q) {
  return {AddPairs(sum.low, u.low, q), AddPairs(sum.high, u.high, q)};
}
EVOQ_ALWAYS_INLINE Ints Fold(Ints sum, Pairs16 pairs) {
  return {SumOfPairs(sum.low, pairs.low), SumOfPairs(sum.high, pairs.high)};
}
#endif
inline Ints All(int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
inline Ints Times(const uint8_t* p, int32_t less, int32_t x) {
  const auto half = [&](const uint8_t* at) {
    const __m256i zeros =
        _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(at)));
    return _mm256_mullo_epi32(_mm256_sub_epi32(zeros, _mm256_set1_epi32(less)),
                              _mm256_set1_epi32(x));
  };
  return {half(p), half(p + 8)};
}
inline Ints LoadWords(const uint16_t* words) {
  const auto half = [](const uint16_t* at) {
    return _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
  };
  return {half(words), half(words + 8)};
}
inline Ints LowNibbles(Ints x) {
  const __m256i mask = _mm256_set1_epi32(15);
  return {_mm256_and_si256(x.low, mask), _mm256_and_si256(x.high, mask)};
}
inline Ints NextNibbles(Ints x) {
  return {_mm256_srli_epi32(x.low, 4), _mm256_srli_epi32(x.high, 4)};
}
inline Ints Multiples(const uint16_t* words, int shift) {
  const Ints all = LoadWords(words);
  const __m128i by = _mm_cvtsi32_si128(shift);
  return LowNibbles({_mm256_srl_epi32(all.low, by), _mm256_srl_epi32(all.high, by)});
}
inline Ints TimesInts(Ints x, int32_t by) {
  return {_mm256_mullo_epi32(x.low, _mm256_set1_epi32(by)),
          _mm256_mullo_epi32(x.high, _mm256_set1_epi32(by))};
}
inline Ints AsInts(Floats x) { return {_mm256_castps_si256(x.low), _mm256_castps_si256(x.high)}; }
inline Floats AddShortProducts(Floats ints, Ints x, Ints m) {
  const auto half = [](__m256 sum, __m256i a, __m256i b) {
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(sum), _mm256_madd_epi16(a, b)));
  };
  return {half(ints.low, x.low, m.low), half(ints.high, x.high, m.high)};
}
inline Ints InPairs(Ints x) { return TimesInts(x, 0x10001); }
inline Ints InBytes(Ints x) { return TimesInts(x, 0x1010101); }
inline Bytes TimesPairsPlus(Bytes u, Ints pairs, Ints added) {
  return {_mm256_add_epi8(_mm256_mullo_epi16(u.low, pairs.low), added.low),
          _mm256_add_epi8(_mm256_mullo_epi16(u.high, pairs.high), added.high)};
}
inline Floats ToFloats(Ints x) { return {_mm256_cvtepi32_ps(x.low), _mm256_cvtepi32_ps(x.high)}; }
inline Floats AllF(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
inline Floats LoadF(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
inline Floats LoadHalf(const uint16_t* p) {
  const auto half = [](const uint16_t* at) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
  };
  return {half(p), half(p + 8)};
}
inline Floats LoadF(const float* p, int n) {
  alignas(32) float values[16] = {};
  std::memcpy(values, p, static_cast<size_t>(n) * sizeof(float));
  return LoadF(values);
}
inline void StoreF(float* p, int n, Floats x) {
  alignas(32) float values[16];
  _mm256_store_ps(values, x.low), _mm256_store_ps(values + 8, x.high);
  std::memcpy(p, values, static_cast<size_t>(n) * sizeof(float));
}
inline Floats Mul(Floats a, Floats b) {
  return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)};
}
inline Floats Add(Floats a, Floats b) {
  return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)};
}
inline Floats MulAdd(Floats a, Floats b, Floats c) {
  return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}
inline Ints Magnitudes(Floats x) {
  const __m256i mask = _mm256_set1_epi32(0x7fffffff);
  return {_mm256_and_si256(_mm256_castps_si256(x.low), mask),
          _mm256_and_si256(_mm256_castps_si256(x.high), mask)};
}
inline Ints MaxInts(Ints a, Ints b) {
  return {_mm256_max_epi32(a.low, b.low), _mm256_max_epi32(a.high, b.high)};
}
inline Ints AddInts(Ints a, Ints b) {
  return {_mm256_add_epi32(a.low, b.low), _mm256_add_epi32(a.high, b.high)};
}
// Of all elements, by halves.
template <typename F>
EVOQ_ALWAYS_INLINE int32_t Reduced(Ints x, F f) {
  const __m256i eight = f(x.low, x.high);
  __m128i four =
      _mm256_castsi256_si128(f(eight, _mm256_castsi128_si256(_mm256_extracti128_si256(eight, 1))));
  const auto fold = [&](__m128i moved) {
    return _mm256_castsi256_si128(f(_mm256_castsi128_si256(four), _mm256_castsi128_si256(moved)));
  };
  four = fold(_mm_shuffle_epi32(four, 0x4e));
  four = fold(_mm_shuffle_epi32(four, 0xb1));
  return _mm_cvtsi128_si32(four);
}
inline int32_t LargestOf(Ints x) {
  return Reduced(x, [](__m256i a, __m256i b) { return _mm256_max_epi32(a, b); });
}
inline int32_t SumOf(Ints x) {
  return Reduced(x, [](__m256i a, __m256i b) { return _mm256_add_epi32(a, b); });
}
inline Ints RoundToInts(Floats x, float inverse) {
  const __m256 round = _mm256_set1_ps(kBlockRound), by = _mm256_set1_ps(inverse);
  const auto half = [&](__m256 y) {
    return _mm256_sub_epi32(_mm256_castps_si256(_mm256_add_ps(_mm256_mul_ps(y, by), round)),
                            _mm256_castps_si256(round));
  };
  return {half(x.low), half(x.high)};
}
inline void StoreInt8(int8_t* p, int n, Ints x) {
  // Pairs of 16 and then of 8 bits, by halves of registers: elements 0-3, 8-11, 4-7, 12-15.
  const __m256i pairs = _mm256_packs_epi32(x.low, x.high);
  const __m128i mixed =
      _mm_packs_epi16(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1));
  const __m128i bytes = _mm_shuffle_epi32(mixed, 0xd8);
  if (n == 16) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), bytes);
  } else {
    std::memcpy(p, &bytes, static_cast<size_t>(n));
  }
}
inline BlockSum Round32(const float* x, float inverse, int8_t* q) {
  const __m256 by = _mm256_set1_ps(inverse);
  const auto round = [&](const float* at) {
    return _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(at), by));
  };
  // Of each 128 bits four of each eight numbers.
  const __m256i mixed = _mm256_packs_epi16(_mm256_packs_epi32(round(x), round(x + 8)),
                                           _mm256_packs_epi32(round(x + 16), round(x + 24)));
  const __m256i bytes =
      _mm256_permutevar8x32_epi32(mixed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(q), bytes);
  return _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_set1_epi8(1), bytes), _mm256_set1_epi16(1));
}
#else
constexpr int kMaxRows = 1, kWideRows = 0;
constexpr int kRegisters = 16, kRegistersOfFloats = 4;
constexpr bool kSignedBytes = false;
constexpr int64_t kDirectRows = 32, kStepRows = kFewVariants ? 4 : 32;
struct Bytes {
  uint8_t v[64];
};
struct Ints {
  int32_t v[16];
};
struct Floats {
  float v[16];
};
using Quad = const int8_t*;

// Each element of T by f(i).
template <typename T, typename F>
EVOQ_ALWAYS_INLINE T Each(F f) {
  T t;
  for (size_t i = 0; i < sizeof(t.v) / sizeof(t.v[0]); ++i) t.v[i] = f(i);
  return t;
}
inline Bytes LoadBytes(const uint8_t* p) {
  return Each<Bytes>([&](size_t i) { return p[i]; });
}
inline void StoreBytes(uint8_t* p, const Bytes& x) { std::memcpy(p, x.v, sizeof(x.v)); }
template <int kBits>
EVOQ_ALWAYS_INLINE Bytes Bits(const Bytes& x, int i) {
  return Each<Bytes>(
      [&](size_t j) { return static_cast<uint8_t>(x.v[j] >> (kBits * i) & ((1 << kBits) - 1)); });
}
inline Bytes LookUp(const uint8_t (&table)[16], const Bytes& i) {
  return Each<Bytes>([&](size_t j) { return table[i.v[j]]; });
}
inline Bytes Flip(const Bytes& x) {
  return Each<Bytes>([&](size_t i) { return static_cast<uint8_t>(x.v[i] ^ 0x80); });
}
inline Quad Spread(const int8_t* q) { return q; }
template <bool kSmall>
EVOQ_ALWAYS_INLINE Ints Dot(const Ints& sum, const Bytes& u, Quad q) {
  return Each<Ints>([&](size_t n) {
    return sum.v[n] + u.v[4 * n] * q[0] + u.v[4 * n + 1] * q[1] + u.v[4 * n + 2] * q[2] +
           u.v[4 * n + 3] * q[3];
  });
}
inline Ints All(int32_t x) {
  return Each<Ints>([&](size_t) { return x; });
}
inline Ints Times(const uint8_t* p, int32_t less, int32_t x) {
  return Each<Ints>([&](size_t n) { return (p[n] - less) * x; });
}
inline Ints LoadWords(const uint16_t* words) {
  return Each<Ints>([&](size_t n) { return int32_t{words[n]}; });
}
inline Ints LowNibbles(const Ints& x) {
  return Each<Ints>([&](size_t n) { return x.v[n] & 15; });
}
inline Ints NextNibbles(const Ints& x) {
  return Each<Ints>([&](size_t n) { return x.v[n] >> 4; });
}
inline Ints Multiples(const uint16_t* words, int shift) {
  return Each<Ints>([&](size_t n) { return words[n] >> shift & 15; });
}
inline Ints TimesInts(const Ints& x, int32_t by) {
  return Each<Ints>([&](size_t n) { return x.v[n] * by; });
}
inline Ints AsInts(const Floats& x) {
  return Each<Ints>([&](size_t n) { return std::bit_cast<int32_t>(x.v[n]); });
}
inline Floats AddShortProducts(const Floats& ints, const Ints& x, const Ints& m) {
  return Each<Floats>([&](size_t n) {
    return std::bit_cast<float>(std::bit_cast<int32_t>(ints.v[n]) + x.v[n] * m.v[n]);
  });
}
// The multiple alone: TimesPairsPlus takes it from its lane.
inline Ints InPairs(const Ints& x) { return x; }
inline Ints InBytes(const Ints& x) { return x; }
inline Bytes TimesPairsPlus(const Bytes& u, const Ints& by, const Ints& added) {
  return Each<Bytes>(
      [&](size_t i) { return static_cast<uint8_t>(u.v[i] * by.v[i / 4] + added.v[i / 4]); });
}
inline Floats ToFloats(const Ints& x) {
  return Each<Floats>([&](size_t n) { return static_cast<float>(x.v[n]); });
}
inline Floats AllF(float x) {
  return Each<Floats>([&](size_t) { return x; });
}
inline Floats LoadF(const float* p, int n) {
  Floats x = {};
  std::memcpy(x.v, p, static_cast<size_t>(n) * sizeof(float));
  return x;
}
inline Floats LoadF(const float* p) { return LoadF(p, 16); }
// Finite numbers >= 0: the exponent is 112 more in float32.
inline Floats LoadHalf(const uint16_t* p) {
  return Each<Floats>([&](size_t n) {
    const uint32_t bits = uint32_t{p[n]} << 13;
    float x;
    std::memcpy(&x, &bits, sizeof(x));
    return x * 0x1p112f;
  });
}
inline void StoreF(float* p, int n, const Floats& x) {
  std::memcpy(p, x.v, static_cast<size_t>(n) * sizeof(float));
}
inline Floats Mul(const Floats& a, const Floats& b) {
  return Each<Floats>([&](size_t n) { return a.v[n] * b.v[n]; });
}
inline Floats Add(const Floats& a, const Floats& b) {
  return Each<Floats>([&](size_t n) { return a.v[n] + b.v[n]; });
}
inline Floats MulAdd(const Floats& a, const Floats& b, const Floats& c) {
  return Each<Floats>([&](size_t n) { return std::fma(a.v[n], b.v[n], c.v[n]); });
}
inline Ints Magnitudes(const Floats& x) {
  return Each<Ints>([&](size_t n) { return std::bit_cast<int32_t>(x.v[n]) & 0x7fffffff; });
}
inline Ints MaxInts(const Ints& a, const Ints& b) {
  return Each<Ints>([&](size_t n) { return a.v[n] > b.v[n] ? a.v[n] : b.v[n]; });
}
inline Ints AddInts(const Ints& a, const Ints& b) {
  return Each<Ints>([&](size_t n) { return a.v[n] + b.v[n]; });
}
inline int32_t LargestOf(const Ints& x) {
  int32_t largest = 0;
  for (const int32_t v : x.v) largest = v > largest ? v : largest;
  return largest;
}
inline int32_t SumOf(const Ints& x) {
  int32_t sum = 0;
  for (const int32_t v : x.v) sum += v;
  return sum;
}
inline Ints RoundToInts(const Floats& x, float inverse) {
  return Each<Ints>([&](size_t n) {
    return std::bit_cast<int32_t>(x.v[n] * inverse + kBlockRound) -
           std::bit_cast<int32_t>(kBlockRound);
  });
}
inline void StoreInt8(int8_t* p, int n, const Ints& x) {
  for (int i = 0; i < n; ++i) p[i] = static_cast<int8_t>(x.v[i]);
}
using BlockSum = int32_t;
inline void SumsTimes(const BlockSum (&sums)[4], int32_t factor, int32_t (&products)[4]) {
  for (int i = 0; i < 4; ++i) products[i] = factor * sums[i];
}
inline BlockSum Round32(const float* x, float inverse, int8_t* q) {
  const Ints first = RoundToInts(LoadF(x), inverse), second = RoundToInts(LoadF(x + 16), inverse);
  StoreInt8(q, 16, first), StoreInt8(q + 16, 16, second);
  return SumOf(AddInts(first, second));
}
#endif

}  // namespace
}  // namespace evoq::EVOQ_ISA
