#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <cstring>
#include <utility>

#include "kernels/attention/attention_int8.h"
#include "kernels/math/math.inl.h"
#include "kernels/vec.h"

namespace evoq::EVOQ_ISA {
namespace {

// ---- vectors of kLanes int32, each a pair of int16, and of as many floats

#if defined(__AVX512F__)
constexpr int kLanes = 16, kMostRows = 7;  // 14 registers of integers and as many of floats
using Ints = __m512i;
using Floats = __m512;
EVOQ_ALWAYS_INLINE Ints LoadI(const int32_t* p) { return _mm512_loadu_si512(p); }
EVOQ_ALWAYS_INLINE void StoreI(int32_t* p, Ints v) { _mm512_storeu_si512(p, v); }
EVOQ_ALWAYS_INLINE Ints AllI(int32_t x) { return _mm512_set1_epi32(x); }
EVOQ_ALWAYS_INLINE Ints Dot(Ints sum, Ints a, Ints b) { return _mm512_dpwssd_epi32(sum, a, b); }
EVOQ_ALWAYS_INLINE Floats LoadF(const float* p) { return _mm512_loadu_ps(p); }
EVOQ_ALWAYS_INLINE Floats AllF(float x) { return _mm512_set1_ps(x); }
EVOQ_ALWAYS_INLINE Floats ToFloats(Ints v) { return _mm512_cvtepi32_ps(v); }
EVOQ_ALWAYS_INLINE Floats MulAdd(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
#elif defined(__AVX2__)
constexpr int kLanes = 8, kMostRows = 2;
using Ints = __m256i;
using Floats = __m256;
EVOQ_ALWAYS_INLINE Ints LoadI(const int32_t* p) {
  return _mm256_loadu_si256(reinterpret_cast<const Ints*>(p));
}
EVOQ_ALWAYS_INLINE void StoreI(int32_t* p, Ints v) {
  _mm256_storeu_si256(reinterpret_cast<Ints*>(p), v);
}
EVOQ_ALWAYS_INLINE Ints AllI(int32_t x) { return _mm256_set1_epi32(x); }
EVOQ_ALWAYS_INLINE Ints Dot(Ints sum, Ints a, Ints b) {
  return _mm256_add_epi32(sum, _mm256_madd_epi16(a, b));
}
EVOQ_ALWAYS_INLINE Floats LoadF(const float* p) { return _mm256_loadu_ps(p); }
EVOQ_ALWAYS_INLINE Floats AllF(float x) { return _mm256_set1_ps(x); }
EVOQ_ALWAYS_INLINE Floats ToFloats(Ints v) { return _mm256_cvtepi32_ps(v); }
EVOQ_ALWAYS_INLINE Floats MulAdd(Floats a, Floats b, Floats c) { return _mm256_fmadd_ps(a, b, c); }
#else
constexpr int kLanes = 4, kMostRows = 2;
using Ints = Vec<int32_t, 4>;
using Floats = Vec<float, 4>;
EVOQ_ALWAYS_INLINE Ints LoadI(const int32_t* p) { return LoadVec<int32_t, 4>(p); }
EVOQ_ALWAYS_INLINE void StoreI(int32_t* p, Ints v) { StoreVec<int32_t, 4>(p, v); }
EVOQ_ALWAYS_INLINE Ints AllI(int32_t x) { return Ints{} + x; }
EVOQ_ALWAYS_INLINE Ints Dot(Ints sum, Ints a, Ints b) {
#if defined(__SSE2__)
  return sum + Ints(_mm_madd_epi16(__m128i(a), __m128i(b)));
#else
  return sum + (a << 16 >> 16) * (b << 16 >> 16) + (a >> 16) * (b >> 16);
#endif
}
EVOQ_ALWAYS_INLINE Floats LoadF(const float* p) { return LoadVec<float, 4>(p); }
EVOQ_ALWAYS_INLINE Floats AllF(float x) { return Splat<Floats>(x); }
EVOQ_ALWAYS_INLINE Floats ToFloats(Ints v) { return Convert<float, 4>(v); }
EVOQ_ALWAYS_INLINE Floats MulAdd(Floats a, Floats b, Floats c) {
#if defined(__aarch64__)
  for (int i = 0; i < 4; ++i) c[i] = Fma(a[i], b[i], c[i]);
  return c;
#else
  return a * b + c;
#endif
}
#endif

EVOQ_ALWAYS_INLINE int32_t PairOf(int low, int high) {
  return static_cast<int32_t>(static_cast<uint32_t>(low & 0xffff) | static_cast<uint32_t>(high)
                                                                        << 16);
}

// HalfToFloat of tensor/dtype.h.
EVOQ_ALWAYS_INLINE Floats16 Widened(const uint16_t* p) {
#if defined(__AVX512F__)
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
#elif defined(__AVX2__)
  const auto half = [](const uint16_t* x) __attribute__((always_inline)) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x)));
  };
  const __m256 halves[2] = {half(p), half(p + 8)};
  return __builtin_bit_cast(Floats16, halves);
#else
  const auto bits = Convert<uint32_t, 16>(LoadVec<uint16_t, 16>(p));
  const auto sign = (bits & 0x8000) << 16, magnitude = bits & 0x7fff;
  const auto exponent =
      magnitude < 0x7c00 ? (magnitude & 0) + (112u << 23) : (magnitude & 0) + 0x70000000u;
  const Floats16 small = Convert<float, 16>(magnitude) * 0x1p-24f;
  const Bits16 normal = (magnitude << 13) + exponent;
  return FromBits(sign | (magnitude < 0x0400 ? ToBits(small) : normal));
#endif
}

// ---- queries

struct Magnitude {
  float value;
  bool finite;
};
// The largest of n elements, NaN where one is not finite.
EVOQ_ALWAYS_INLINE Magnitude LargestOf(const float* x, int64_t n) {
  // The bits of magnitudes are in the order of the numbers, those of what is not finite behind.
  Bits16 most = {};
  for (int64_t i = 0; i < n; i += 16) {
    const Bits16 bits = ToBits(LoadVec<float, 16>(x + i)) & 0x7fffffffu;
    most = bits > most ? bits : most;
  }
  uint32_t largest = 0;
  for (int i = 0; i < 16; ++i) largest = most[i] > largest ? most[i] : largest;
  const bool finite = largest < 0x7f800000u;
  return {FromBits(finite ? largest : 0x7fc00000u), finite};
}

float RoundRow(const float* x, int64_t size, int32_t* pairs) {
  const Magnitude most = LargestOf(x, size);
  const bool zeros = !most.finite || most.value < 0x1p-100f;
  const float inverse = zeros ? 0 : kMostInt16 / most.value;
  for (int64_t i = 0; i < size; i += 16) {
    int16_t q[16] = {};
    if (!zeros) {
      const auto rounded = Convert<int16_t, 16>(RoundVec<16>(LoadVec<float, 16>(x + i) * inverse));
      std::memcpy(q, &rounded, sizeof(q));
    }
    for (int four = 0; four < 16; four += 4) {
      *pairs++ = PairOf(q[four], q[four + 2]);
      *pairs++ = PairOf(q[four + 1], q[four + 3]);
    }
  }
  return most.finite && zeros ? 0 : most.value / kMostInt16;
}

// ---- blocks

// Of 4 elements of kLanes keys, one key in an int32, the pairs of even and of odd ones.
EVOQ_ALWAYS_INLINE void PairsOf(Ints four, Ints* to) {
#if defined(__AVX512F__)
  to[0] = _mm512_srai_epi16(_mm512_slli_epi16(four, 8), 8);
  to[1] = _mm512_srai_epi16(four, 8);
#elif defined(__AVX2__)
  to[0] = _mm256_srai_epi16(_mm256_slli_epi16(four, 8), 8);
  to[1] = _mm256_srai_epi16(four, 8);
#else
  typedef int16_t Shorts __attribute__((vector_size(16)));
  const Shorts words = __builtin_bit_cast(Shorts, four);
  to[0] = __builtin_bit_cast(Ints, words << 8 >> 8);
  to[1] = __builtin_bit_cast(Ints, words >> 8);
#endif
}

// The pairs of the 16 elements from d on of kLanes keys: lanes of 128 bits hold those of every
// fourth, so that the int32 of four of them are transposed within lanes.
struct Sixteen {
  Ints pairs[8];
};
EVOQ_ALWAYS_INLINE Sixteen TakeSixteen(const int8_t* const (&keys)[kLanes], int64_t d) {
  Sixteen taken;
#if defined(__AVX2__)
  const auto load = [&](int i) __attribute__((always_inline)) {
    const auto at = [&](int lane) __attribute__((always_inline)) {
      return _mm_loadu_si128(reinterpret_cast<const __m128i*>(keys[i + 4 * lane] + d));
    };
#if defined(__AVX512F__)
    __m512i v = _mm512_castsi128_si512(at(0));
    v = _mm512_inserti32x4(v, at(1), 1);
    v = _mm512_inserti32x4(v, at(2), 2);
    return _mm512_inserti32x4(v, at(3), 3);
#else
    return _mm256_inserti128_si256(_mm256_castsi128_si256(at(0)), at(1), 1);
#endif
  };
#if defined(__AVX512F__)
#define EVOQ_UNPACK(part, a, b) _mm512_unpack##part(a, b)
#else
#define EVOQ_UNPACK(part, a, b) _mm256_unpack##part(a, b)
#endif
  const Ints a = load(0), b = load(1), c = load(2), e = load(3);
  const Ints low = EVOQ_UNPACK(lo_epi32, a, b), high = EVOQ_UNPACK(hi_epi32, a, b),
             low2 = EVOQ_UNPACK(lo_epi32, c, e), high2 = EVOQ_UNPACK(hi_epi32, c, e);
  PairsOf(EVOQ_UNPACK(lo_epi64, low, low2), taken.pairs);
  PairsOf(EVOQ_UNPACK(hi_epi64, low, low2), taken.pairs + 2);
  PairsOf(EVOQ_UNPACK(lo_epi64, high, high2), taken.pairs + 4);
  PairsOf(EVOQ_UNPACK(hi_epi64, high, high2), taken.pairs + 6);
#undef EVOQ_UNPACK
#else
  for (int four = 0; four < 4; ++four) {
    Ints v;
    for (int i = 0; i < kLanes; ++i) {
      int32_t x;
      std::memcpy(&x, keys[i] + d + 4 * four, sizeof(x));
      v[i] = x;
    }
    PairsOf(v, taken.pairs + 2 * four);
  }
#endif
  return taken;
}

// Behind the last key stands the last one again, whose scores count for nothing.
void LayKeys(const int8_t* rows, int64_t size, int64_t n, int32_t* pairs) {
  for (int64_t first = 0; first < kKeyBlock; first += kLanes) {
    const int8_t* keys[kLanes];
    for (int i = 0; i < kLanes; ++i) keys[i] = rows + (first + i < n ? first + i : n - 1) * size;
    int32_t* to = pairs + first;
    for (int64_t d = 0; d < size; d += 16, to += 8 * kKeyBlock) {
      const Sixteen taken = TakeSixteen(keys, d);
#pragma GCC unroll 8
      for (int p = 0; p < 8; ++p) StoreI(to + p * kKeyBlock, taken.pairs[p]);
    }
  }
}

// kLanes elements of two keys.
EVOQ_ALWAYS_INLINE Ints ValuePairs(const int8_t* a, const int8_t* b) {
#if defined(__AVX512F__)
  const auto widened = [](const int8_t* p) __attribute__((always_inline)) {
    return _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  };
  return _mm512_mask_blend_epi16(0xaaaaaaaa, widened(a), _mm512_slli_epi32(widened(b), 16));
#elif defined(__AVX2__)
  const auto widened = [](const int8_t* p) __attribute__((always_inline)) {
    return _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  };
  return _mm256_blend_epi16(widened(a), _mm256_slli_epi32(widened(b), 16), 0xaa);
#else
  const auto widened = [](const int8_t* p) __attribute__((always_inline)) {
    return Convert<int32_t, 4>(LoadVec<int8_t, 4>(p));
  };
  return (widened(a) & 0xffff) | widened(b) << 16;
#endif
}

void LayValues(const int8_t* rows, int64_t size, int64_t n, int32_t* pairs) {
  for (int64_t j = 0; j < n; j += 2, pairs += size) {
    const int8_t *const a = rows + j * size, *const b = j + 1 < n ? a + size : a;
    for (int64_t d = 0; d < size; d += kLanes) StoreI(pairs + d, ValuePairs(a + d, b + d));
  }
}

#if defined(__AVX2__)
EVOQ_ALWAYS_INLINE Floats16 Even(Floats16 a, Floats16 b) {
  return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
}
EVOQ_ALWAYS_INLINE Floats16 Odd(Floats16 a, Floats16 b) {
  return __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
}

// Of kBlocks vectors whose elements are of blocks 0, 1, ..., kBlocks - 1 in turn, those of each
// block, `step` apart.
template <int kBlocks>
EVOQ_ALWAYS_INLINE void SplitBlocks(const Floats16* v, float* to, int64_t step) {
  if constexpr (kBlocks == 1) {
    StoreVec<float, 16>(to, v[0]);
  } else {
    Floats16 even[kBlocks / 2], odd[kBlocks / 2];
#pragma GCC unroll 4
    for (int i = 0; i < kBlocks / 2; ++i) {
      even[i] = Even(v[2 * i], v[2 * i + 1]);
      odd[i] = Odd(v[2 * i], v[2 * i + 1]);
    }
    SplitBlocks<kBlocks / 2>(even, to, 2 * step);
    SplitBlocks<kBlocks / 2>(odd, to + step, 2 * step);
  }
}
// Those of block kBlock of three.
template <int kBlock, int... kRow>
EVOQ_ALWAYS_INLINE Floats16 Third(const Floats16 (&v)[3], std::integer_sequence<int, kRow...>) {
  const Floats16 of_two =
      __builtin_shufflevector(v[0], v[1], (3 * kRow + kBlock < 32 ? 3 * kRow + kBlock : 0)...);
  return __builtin_shufflevector(of_two, v[2],
                                 (3 * kRow + kBlock < 32 ? kRow : 3 * kRow + kBlock - 16)...);
}
template <>
EVOQ_ALWAYS_INLINE void SplitBlocks<3>(const Floats16* v, float* to, int64_t step) {
  const Floats16 three[3] = {v[0], v[1], v[2]};
  constexpr auto kRows = std::make_integer_sequence<int, 16>();
  StoreVec<float, 16>(to, Third<0>(three, kRows));
  StoreVec<float, 16>(to + step, Third<1>(three, kRows));
  StoreVec<float, 16>(to + 2 * step, Third<2>(three, kRows));
}
// The scales of 16 rows.
template <int kBlocks>
void LayScales16(const uint16_t* scales, int64_t, float* to) {
  Floats16 v[kBlocks];
#pragma GCC unroll 8
  for (int b = 0; b < kBlocks; ++b) v[b] = Widened(scales + 16 * b);
  SplitBlocks<kBlocks>(v, to, kKeyBlock);
}
#endif

// The same of any number of blocks.
void LayAnyScales16(const uint16_t* scales, int64_t blocks, float* to) {
  for (int64_t i = 0; i < 16 * blocks; i += 16) {
    const Floats16 v = Widened(scales + i);
    int64_t row = i / blocks, b = i % blocks;
    for (int k = 0; k < 16; ++k) {
      to[b * kKeyBlock + row] = v[k];
      if (++b == blocks) b = 0, ++row;
    }
  }
}

void LayScales(const uint16_t* scales, int64_t blocks, int64_t n, float* to) {
#if defined(__AVX2__)
  const auto lay = blocks == 1   ? LayScales16<1>
                   : blocks == 2 ? LayScales16<2>
                   : blocks == 3 ? LayScales16<3>
                   : blocks == 4 ? LayScales16<4>
                   : blocks == 8 ? LayScales16<8>
                                 : LayAnyScales16;
#else
  const auto lay = LayAnyScales16;
#endif
  int64_t j = 0;
  for (; j + 16 <= n; j += 16) lay(scales + j * blocks, blocks, to + j);
  for (; j < kKeyBlock; ++j) {
    for (int64_t b = 0; b < blocks; ++b) {
      uint16_t one[16] = {};
      if (j < n) one[0] = scales[j * blocks + b];
      to[b * kKeyBlock + j] = Widened(one)[0];
    }
  }
}

void ValueFactors(const float* scales, int64_t blocks, int64_t n, float* factors, float* largest) {
  for (int64_t b = 0; b < blocks; ++b, scales += kKeyBlock, factors += kKeyBlock) {
    for (int64_t i = 0; i < kKeyBlock; i += 16) {
      const int64_t count = n - i < 0 ? 0 : n - i < 16 ? n - i : 16;
      Floats16 s = {};
      if (count == 16) {
        s = LoadVec<float, 16>(scales + i);
      } else {
        std::memcpy(&s, scales + i, static_cast<size_t>(count) * sizeof(float));
      }
      StoreVec<float, 16>(factors + i, s);
    }
    const Magnitude most = LargestOf(factors, kKeyBlock);
    largest[b] = most.value;
    const float factor = most.finite && most.value != 0 ? kMostInt16 / most.value : 0;
    for (int i = 0; i < kKeyBlock; i += 16) {
      const Floats16 s = LoadVec<float, 16>(factors + i);
      StoreVec<float, 16>(factors + i, factor != 0 ? s * factor : Floats16{});
    }
  }
}

// ---- products

constexpr int kBeat = 4;  // pairs

// sums[r, v] += the pairs of row r by `depth` rows of vectors.
template <int kRows, int kVectors>
EVOQ_ALWAYS_INLINE void AddProducts(const int32_t* a, int64_t a_step, const int32_t* b,
                                    int64_t b_step, int64_t depth, Ahead& ahead,
                                    Ints (&sums)[kRows][kVectors]) {
  for (int64_t k = 0; k < depth; ++k, b += b_step) {
    if (k % kBeat == 0) ahead.Beat();
    Ints w[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) w[v] = LoadI(b + v * kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const Ints pair = AllI(a[r * a_step + k]);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sums[r][v] = Dot(sums[r][v], pair, w[v]);
    }
  }
}

// Vectors of columns beside so many rows.
template <int kRows>
constexpr int kVectorsOf = kRows <= 2 && kMostRows > 2 ? 4 : 2;
static_assert(kKeyBlock % (kVectorsOf<1> * kLanes) == 0);

template <int kRows>
void DotsOfRows(const Int8Dots& p, const int32_t* q, float* y) {
  constexpr int kVectors = kVectorsOf<kRows>;
  for (int64_t column = 0; column < kKeyBlock; column += kVectors * kLanes) {
    Floats t[kRows][kVectors] = {};
    const float* scales = p.scales + column;
    for (int64_t d = 0; d < p.size; d += p.block, scales += kKeyBlock) {
      const int64_t count = p.block < p.size - d ? p.block : p.size - d;
      Ints sums[kRows][kVectors] = {};
      AddProducts<kRows, kVectors>(q + d / 2, p.size / 2, p.keys + d / 2 * kKeyBlock + column,
                                   kKeyBlock, count / 2, *p.ahead, sums);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        const Floats scale = LoadF(scales + v * kLanes);
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) t[r][v] = MulAdd(ToFloats(sums[r][v]), scale, t[r][v]);
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v)
        std::memcpy(y + r * kKeyBlock + column + v * kLanes, &t[r][v], sizeof(Floats));
    }
  }
}

constexpr int kPairs = kKeyBlock / 2;

// Weights as integers, in pairs of neighbours.
EVOQ_ALWAYS_INLINE void RoundWeights(const float* weights, const float* factors, int32_t* pairs) {
#pragma GCC unroll 4
  for (int i = 0; i < kKeyBlock; i += 16) {
    const Floats16 x = LoadVec<float, 16>(weights + i) * LoadVec<float, 16>(factors + i);
#if defined(__AVX512F__)
    const __m256i rounded = _mm512_cvtepi32_epi16(_mm512_cvtps_epi32(x));
#else
    const auto rounded = Convert<int16_t, 16>(RoundVec<16>(x));
#endif
    std::memcpy(pairs + i / 2, &rounded, sizeof(rounded));
  }
}

// Columns [column, column + kVectors * kLanes) of a block.
template <int kRows, int kVectors>
EVOQ_ALWAYS_INLINE void AddColumns(const Int8Add& p, const int32_t* pairs, int64_t column,
                                   const float* earlier, const float (&factors)[kRows], float* y) {
  Ints sums[kRows][kVectors] = {};
  AddProducts<kRows, kVectors>(pairs, kPairs, p.values + column, p.size, (p.n + 1) / 2, *p.ahead,
                               sums);
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      float* const at = y + r * p.y_step + column + v * kLanes;
      const Floats sum =
          MulAdd(ToFloats(sums[r][v]), AllF(factors[r]), LoadF(at) * AllF(earlier[r]));
      std::memcpy(at, &sum, sizeof(sum));
    }
  }
}

template <int kRows>
void AddRows(const Int8Add& p, int row) {
  constexpr int kVectors = kVectorsOf<kRows>;
  alignas(64) int32_t pairs[kRows * kPairs];
  float* const y = p.y + row * p.y_step;
  int64_t column = 0;
  for (int64_t b = 0; column < p.size; ++b) {
    float factors[kRows];
    for (int r = 0; r < kRows; ++r) {
      RoundWeights(p.weights + (row + r) * kKeyBlock, p.factors + b * kKeyBlock,
                   pairs + r * kPairs);
      factors[r] = p.now[row + r] * (p.largest[b] / kMostInt16);
    }
    const int64_t end = p.block < p.size - column ? column + p.block : p.size;
    for (; column + kVectors * kLanes <= end; column += kVectors * kLanes)
      AddColumns<kRows, kVectors>(p, pairs, column, p.earlier + row, factors, y);
    for (; column < end; column += kLanes)
      AddColumns<kRows, 1>(p, pairs, column, p.earlier + row, factors, y);
  }
}

// How many of so many rows are taken together: code for 3, 5 and 6 would be seldom used.
constexpr int kTaken[] = {0, 1, 2, 2, 4, 4, 4, 7};
constexpr int Taken(int rows) { return kTaken[rows < kMostRows ? rows : kMostRows]; }
template <typename Run>
EVOQ_ALWAYS_INLINE void ByTiles(int rows, const Run& run) {
  for (int row = 0, count; row < rows; row += count) {
    count = Taken(rows - row);
    if constexpr (kMostRows > 2) {
      if (count == 7) {
        run(std::integral_constant<int, 7>(), row);
        continue;
      }
      if (count == 4) {
        run(std::integral_constant<int, 4>(), row);
        continue;
      }
    }
    if (count == 2) {
      run(std::integral_constant<int, 2>(), row);
    } else {
      run(std::integral_constant<int, 1>(), row);
    }
  }
}

void Dots(const Int8Dots& p) {
  ByTiles(p.rows, [&](auto rows, int row) {
    DotsOfRows<rows>(p, p.q + row * (p.size / 2), p.y + row * kKeyBlock);
  });
}
void Add(const Int8Add& p) {
  ByTiles(p.rows, [&](auto rows, int row) { AddRows<rows>(p, row); });
}

}  // namespace

extern const AttentionInt8Table kAttentionInt8Table;
const AttentionInt8Table kAttentionInt8Table = {
    .rows = kMostRows > 2 ? kMostRows : kMaxAttentionRows,
    .columns = kVectorsOf<1> * kLanes,
    .beat = kBeat,
    .round_row = RoundRow,
    .lay_keys = LayKeys,
    .lay_values = LayValues,
    .lay_scales = LayScales,
    .value_factors = ValueFactors,
    .dots = Dots,
    .add = Add};

}  // namespace evoq::EVOQ_ISA
