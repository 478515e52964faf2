#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <array>
#include <cstring>
#include <utility>

#include "kernels/attention/attention.h"
#include "kernels/attention/attention_inputs.h"
#include "kernels/math/math.inl.h"
#include "kernels/vec.h"

namespace evoq::EVOQ_ISA {
namespace {

#if defined(__AVX512F__)
constexpr int kLanes = 16, kVectors = 4, kRows = 6;  // 24 accumulators of 32 registers
using Floats = __m512;
EVOQ_ALWAYS_INLINE Floats Load(const float* p) { return _mm512_loadu_ps(p); }
EVOQ_ALWAYS_INLINE Floats Load(const uint16_t* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
EVOQ_ALWAYS_INLINE Floats MulAdd(float a, Floats b, Floats c) {
  return _mm512_fmadd_ps(_mm512_set1_ps(a), b, c);
}
#elif defined(__AVX2__)
constexpr int kLanes = 8, kVectors = 2, kRows = 6;  // 12 of 16
using Floats = __m256;
EVOQ_ALWAYS_INLINE Floats Load(const float* p) { return _mm256_loadu_ps(p); }
EVOQ_ALWAYS_INLINE Floats Load(const uint16_t* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
EVOQ_ALWAYS_INLINE Floats MulAdd(float a, Floats b, Floats c) {
  return _mm256_fmadd_ps(_mm256_set1_ps(a), b, c);
}
#else
constexpr int kLanes = 4, kVectors = 2, kRows = 4;  // 8 of 16
using Floats = Vec<float, kLanes>;
EVOQ_ALWAYS_INLINE Floats Load(const float* p) { return LoadVec<float, kLanes>(p); }
#endif
static_assert(kRows <= kMaxAttentionRows);

// The first n < kLanes elements; the others are 0, and are neither read nor written.
#if defined(__AVX512F__)
EVOQ_ALWAYS_INLINE Floats LoadPart(const float* p, int64_t n) {
  return _mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << n) - 1), p);
}
EVOQ_ALWAYS_INLINE Floats LoadPart(const uint16_t* p, int64_t n) {
  return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(static_cast<__mmask16>((1u << n) - 1), p));
}
EVOQ_ALWAYS_INLINE void StorePart(float* p, Floats v, int64_t n) {
  _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << n) - 1), v);
}
#elif defined(__AVX2__)
EVOQ_ALWAYS_INLINE __m256i Part(int64_t n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)),
                            _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
EVOQ_ALWAYS_INLINE Floats LoadPart(const float* p, int64_t n) {
  return _mm256_maskload_ps(p, Part(n));
}
EVOQ_ALWAYS_INLINE Floats LoadPart(const uint16_t* p, int64_t n) {
  uint16_t part[kLanes] = {};
  for (int64_t i = 0; i < n; ++i) part[i] = p[i];
  return Load(part);
}
EVOQ_ALWAYS_INLINE void StorePart(float* p, Floats v, int64_t n) {
  _mm256_maskstore_ps(p, Part(n), v);
}
#endif

#if defined(__aarch64__)
EVOQ_ALWAYS_INLINE float MulAdd(float a, float b, float c) { return Fma(a, b, c); }
EVOQ_ALWAYS_INLINE Floats MulAdd(float a, Floats b, Floats c) {
  for (int i = 0; i < kLanes; ++i) c[i] = Fma(a, b[i], c[i]);
  return c;
}
#elif !defined(__AVX2__)
EVOQ_ALWAYS_INLINE float MulAdd(float a, float b, float c) { return a * b + c; }
EVOQ_ALWAYS_INLINE Floats MulAdd(float a, Floats b, Floats c) { return a * b + c; }
#endif

// Of vectors.
EVOQ_ALWAYS_INLINE Floats MulAddEach(Floats a, Floats b, Floats c) {
#if defined(__AVX512F__)
  return _mm512_fmadd_ps(a, b, c);
#elif defined(__AVX2__)
  return _mm256_fmadd_ps(a, b, c);
#else
  for (int i = 0; i < kLanes; ++i) c[i] = MulAdd(a[i], b[i], c[i]);
  return c;
#endif
}

// HalfToFloat of tensor/dtype.h.
EVOQ_ALWAYS_INLINE float Widened(uint16_t x) {
#if defined(__F16C__)
  return _cvtsh_ss(x);
#else
  const uint32_t sign = static_cast<uint32_t>(x & 0x8000) << 16, magnitude = x & 0x7fffu;
  if (magnitude < 0x0400)
    return FromBits(sign | ToBits(static_cast<float>(static_cast<int32_t>(magnitude)) * 0x1p-24f));
  const uint32_t exponent = magnitude < 0x7c00 ? 112u << 23 : 0x70000000u;
  return FromBits(sign | ((magnitude << 13) + exponent));
#endif
}
#if !defined(__AVX2__)
EVOQ_ALWAYS_INLINE float Widened(float x) { return x; }
EVOQ_ALWAYS_INLINE Floats Load(const uint16_t* p) {
  Floats v;
  for (int i = 0; i < kLanes; ++i) v[i] = Widened(p[i]);
  return v;
}
#endif

void Widen(const uint16_t* x, float* y, int64_t n) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const Floats v = Load(x + i);
    std::memcpy(y + i, &v, sizeof(v));
  }
  for (; i < n; ++i) y[i] = Widened(x[i]);
}

EVOQ_ALWAYS_INLINE Floats Load(const int8_t* p) {
#if defined(__AVX512F__)
  return _mm512_cvtepi32_ps(
      _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
#elif defined(__AVX2__)
  return _mm256_cvtepi32_ps(
      _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
#else
  return Convert<float, kLanes>(LoadVec<int8_t, kLanes>(p));
#endif
}

// All elements are a scale of their own.
EVOQ_ALWAYS_INLINE Floats WidenedScale(const uint16_t* p) {
#if defined(__AVX512F__)
  return _mm512_cvtph_ps(_mm256_set1_epi16(static_cast<short>(*p)));
#elif defined(__AVX2__)
  return _mm256_cvtph_ps(_mm_set1_epi16(static_cast<short>(*p)));
#else
  return Splat<Floats>(Widened(*p));
#endif
}

// Of blocks of kBlock, one behind the other.
template <int kBlock>
void DequantizeBlocks(const int8_t* q, const uint16_t* scales, float* y, int64_t blocks) {
  for (int64_t b = 0; b < blocks; ++b, q += kBlock, y += kBlock) {
    const Floats scale = WidenedScale(scales + b);
#pragma GCC unroll 8
    for (int j = 0; j < kBlock; j += kLanes) {
      const Floats v = Load(q + j) * scale;
      std::memcpy(y + j, &v, sizeof(v));
    }
  }
}

void Dequantize(const CacheRows& x, float* y, int64_t rows) {
  if (x.block == kCacheBlock && x.size % kCacheBlock == 0)
    return DequantizeBlocks<kCacheBlock>(x.q, x.scales, y, rows * x.size / kCacheBlock);
  const int8_t* q = x.q;
  const uint16_t* scale = x.scales;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = 0; i < x.size; i += x.block, ++scale) {
      const int64_t n = x.block < x.size - i ? x.block : x.size - i;
      const float s = Widened(*scale);
      int64_t j = 0;
      for (; j + kLanes <= n; j += kLanes) {
        const Floats v = Load(q + j) * s;
        std::memcpy(y + j, &v, sizeof(v));
      }
      for (; j < n; ++j) y[j] = static_cast<float>(q[j]) * s;
      q += n;
      y += n;
    }
  }
}

// kTile vectors of columns of kTileRows rows.
template <typename T, int kTileRows, int kTile>
EVOQ_ALWAYS_INLINE void Tile(const RowsByBlock& p, int64_t column) {
  Floats acc[kTileRows][kTile];
#pragma GCC unroll 8
  for (int r = 0; r < kTileRows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kTile; ++v)
      acc[r][v] = p.times != nullptr ? Load(p.y + r * p.y_step + column + v * kLanes) * p.times[r]
                                     : Floats{};
  }
  const T* b = static_cast<const T*>(p.b) + column;
  for (int64_t k = 0; k < p.depth; ++k, b += p.b_step) {
    if (p.ahead != nullptr) p.ahead->Beat();
    Floats w[kTile];
#pragma GCC unroll 8
    for (int v = 0; v < kTile; ++v) w[v] = Load(b + v * kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < kTileRows; ++r) {
      const float a = p.a[r * p.a_step + k];
#pragma GCC unroll 8
      for (int v = 0; v < kTile; ++v) acc[r][v] = MulAdd(a, w[v], acc[r][v]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kTileRows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kTile; ++v)
      std::memcpy(p.y + r * p.y_step + column + v * kLanes, &acc[r][v], sizeof(Floats));
  }
}

// The n < kLanes columns from `column` on.
template <typename T, int kTileRows>
EVOQ_ALWAYS_INLINE void PartTile(const RowsByBlock& p, int64_t column, int64_t n) {
  const T* b = static_cast<const T*>(p.b) + column;
#if defined(__AVX2__)
  Floats acc[kTileRows];
#pragma GCC unroll 8
  for (int r = 0; r < kTileRows; ++r)
    acc[r] = p.times != nullptr ? LoadPart(p.y + r * p.y_step + column, n) * p.times[r] : Floats{};
  for (int64_t k = 0; k < p.depth; ++k, b += p.b_step) {
    const Floats w = LoadPart(b, n);
#pragma GCC unroll 8
    for (int r = 0; r < kTileRows; ++r) acc[r] = MulAdd(p.a[r * p.a_step + k], w, acc[r]);
  }
#pragma GCC unroll 8
  for (int r = 0; r < kTileRows; ++r) StorePart(p.y + r * p.y_step + column, acc[r], n);
#else
  for (int64_t i = 0; i < n; ++i) {
    for (int r = 0; r < kTileRows; ++r) {
      float& y = p.y[r * p.y_step + column + i];
      float sum = p.times != nullptr ? y * p.times[r] : 0.0f;
      for (int64_t k = 0; k < p.depth; ++k)
        sum = MulAdd(p.a[r * p.a_step + k], Widened(b[k * p.b_step + i]), sum);
      y = sum;
    }
  }
#endif
}

template <typename T, int kTileRows>
void Rows(const RowsByBlock& p) {
  int64_t column = 0;
  for (; column + kVectors * kLanes <= p.columns; column += kVectors * kLanes)
    Tile<T, kTileRows, kVectors>(p, column);
  for (; column + kLanes <= p.columns; column += kLanes) Tile<T, kTileRows, 1>(p, column);
  if (column < p.columns) PartTile<T, kTileRows>(p, column, p.columns - column);
}

template <typename T, int... kRow>
constexpr auto RowsOf(std::integer_sequence<int, kRow...>) {
  return std::array<void (*)(const RowsByBlock&), kRows>{Rows<T, kRow + 1>...};
}

template <typename T>
void Product(const RowsByBlock& product) {
  static constexpr auto kByRows = RowsOf<T>(std::make_integer_sequence<int, kRows>());
  kByRows[product.rows - 1](product);
}

[[maybe_unused]] constexpr int kSixteens = kKeyBlock / 16;
using Sixteen = Floats16;

EVOQ_ALWAYS_INLINE Sixteen Larger(Sixteen a, Sixteen b) {
  return b > a ? b : a;
}  // a where b is NaN

// combine of all elements: of those 8 apart, then 4, 2, 1.
template <typename Combine>
EVOQ_ALWAYS_INLINE float Across(Sixteen v, const Combine& combine) {
  v = combine(v,
              __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7));
  v = combine(v,
              __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11));
  v = combine(v,
              __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13));
  v = combine(v,
              __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14));
  return v[0];
}

// The n <= 16 elements at p, and zeros behind them.
EVOQ_ALWAYS_INLINE Sixteen LoadSome(const float* p, int64_t n) {
  Sixteen v = {};
  std::memcpy(&v, p, static_cast<size_t>(n) * sizeof(float));
  return v;
}

float Largest(const float* x, int64_t n) {
  Sixteen most = {};
  for (int64_t i = 0; i < n; i += 16) {
    const Sixteen v = n - i < 16 ? LoadSome(x + i, n - i) : LoadVec<float, 16>(x + i);
    most = Larger(Larger(most, v), -v);
  }
  return Across(most, Larger);
}

void Quantize(const float* x, float scale, int8_t* q, int64_t n) {
  for (int64_t i = 0; i < n; i += 16) {
    const int64_t count = n - i < 16 ? n - i : 16;
    Sixteen v = (count < 16 ? LoadSome(x + i, count) : LoadVec<float, 16>(x + i)) / scale;
    const Sixteen most = Splat<Sixteen>(127.0f);
    v = v == v ? v : 0.0f * most;
    v = most < v ? most : v;
    v = -most > v ? -most : v;
    const auto bytes = Convert<int8_t, 16>(RoundVec<16>(v));
    std::memcpy(q + i, &bytes, static_cast<size_t>(count));
  }
}

// Lanes of `a`, and of `b` between them, each combined with the lane kApart from it: every second
// kApart lanes are those of `a`.
template <int kApart, typename Combine>
EVOQ_ALWAYS_INLINE Sixteen Folded(Sixteen a, Sixteen b, const Combine& combine) {
  if constexpr (kApart == 8) {
    return combine(
        __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 24, 25, 26, 27, 28, 29, 30, 31),
        __builtin_shufflevector(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22,
                                23));
  } else if constexpr (kApart == 4) {
    return combine(
        __builtin_shufflevector(a, b, 0, 1, 2, 3, 20, 21, 22, 23, 8, 9, 10, 11, 28, 29, 30, 31),
        __builtin_shufflevector(a, b, 4, 5, 6, 7, 16, 17, 18, 19, 12, 13, 14, 15, 24, 25, 26, 27));
  } else if constexpr (kApart == 2) {
    return combine(
        __builtin_shufflevector(a, b, 0, 1, 18, 19, 4, 5, 22, 23, 8, 9, 26, 27, 12, 13, 30, 31),
        __builtin_shufflevector(a, b, 2, 3, 16, 17, 6, 7, 20, 21, 10, 11, 24, 25, 14, 15, 28, 29));
  } else {
    return combine(
        __builtin_shufflevector(a, b, 0, 17, 2, 19, 4, 21, 6, 23, 8, 25, 10, 27, 12, 29, 14, 31),
        __builtin_shufflevector(a, b, 1, 16, 3, 18, 5, 20, 7, 22, 9, 24, 11, 26, 13, 28, 15, 30));
  }
}
EVOQ_ALWAYS_INLINE Sixteen Sum(Sixteen a, Sixteen b) { return a + b; }

// Rows of queries that are multiplied together with four keys, whose sums are a register each.
constexpr int kDotRows = kLanes == 16 ? 7 : 1, kDotKeys = 4;

// kTile rows of queries with the 16 keys from `first` on, four at a time. Of four keys, lanes that
// are 8 and then 4 apart are added; then those 2 apart, of the even and of the odd keys; then
// neighbours: key i's sum ends in lane i.
template <typename T, int kTile>
EVOQ_ALWAYS_INLINE void DotsOfSixteen(const KeyDots& p, const float* q, int64_t first, float* y) {
  constexpr int kParts = 16 / kLanes, kOrder[kDotKeys] = {0, 8, 4, 12};
  Sixteen by4[4][kTile];  // of keys 0, 1, 2 and 3, and of every fourth behind them
#pragma GCC unroll 1
  for (int from = 0; from < 4; ++from) {
    const T* keys[kDotKeys];  // behind the last key, the last one again
#pragma GCC unroll 4
    for (int i = 0; i < kDotKeys; ++i) {
      const int64_t key = first + from + kOrder[i];
      keys[i] = static_cast<const T*>(p.keys) + (key < p.n ? key : p.n - 1) * p.key_step;
    }
    Floats acc[kTile][kDotKeys][kParts] = {};
    for (int64_t d = 0; d < p.size; d += 16) {
      p.ahead->Beat();
#pragma GCC unroll 4
      for (int part = 0; part < kParts; ++part) {
        const int64_t at = d + part * kLanes;
        Floats k[kDotKeys];
#pragma GCC unroll 4
        for (int i = 0; i < kDotKeys; ++i) k[i] = Load(keys[i] + at);
#pragma GCC unroll 8
        for (int r = 0; r < kTile; ++r) {
          const Floats w = Load(q + r * p.q_step + at);
#pragma GCC unroll 4
          for (int i = 0; i < kDotKeys; ++i) acc[r][i][part] = MulAddEach(w, k[i], acc[r][i][part]);
        }
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < kTile; ++r) {
      Sixteen sums[kDotKeys];
      std::memcpy(sums, acc[r], sizeof(sums));
      by4[from][r] =
          Folded<4>(Folded<8>(sums[0], sums[1], Sum), Folded<8>(sums[2], sums[3], Sum), Sum);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kTile; ++r)
    StoreVec<float, 16>(
        y + r * kKeyBlock + first,
        Folded<1>(Folded<2>(by4[0][r], by4[2][r], Sum), Folded<2>(by4[1][r], by4[3][r], Sum), Sum));
}

template <typename T, int kTile>
void DotsOf(const KeyDots& p, int64_t first, int row) {
  DotsOfSixteen<T, kTile>(p, p.q + row * p.q_step, first, p.y + row * kKeyBlock);
}
// How many of so many rows are taken together: code for 3 and 5 would be seldom used.
constexpr int kTaken[kMaxAttentionRows + 1] = {0, 1, 2, 2, 4, 4, 6, 7, 4};
template <typename T, int... kTile>
constexpr auto DotsByRows(std::integer_sequence<int, kTile...>) {
  return std::array<void (*)(const KeyDots&, int64_t, int), kDotRows>{
      DotsOf<T, kTaken[kTile + 1]>...};
}

// All rows take some keys before the next ones, so that these come from the first cache.
template <typename T>
void Dots(const KeyDots& p) {
  static constexpr auto kByRows = DotsByRows<T>(std::make_integer_sequence<int, kDotRows>());
  for (int64_t first = 0; first < p.n; first += 16) {
    for (int row = 0; row < p.rows;) {
      const int count = kDotRows == 1 ? 1 : kTaken[p.rows - row];
      kByRows[static_cast<size_t>(count - 1)](p, first, row);
      row += count;
    }
  }
}

// What is taken from scores before they become weights: of a maximum of minus infinity, where no
// key counts yet, nothing.
[[maybe_unused]] EVOQ_ALWAYS_INLINE float BaseOf(float max) {
  return max == -kInfinity ? 0.0f : max;
}

// e^x of x <= 0, or NaN: ExpInline without what larger numbers need, and 1 + r + r^2 P(r) fit to
// 3e-9.
template <typename F>
EVOQ_ALWAYS_INLINE F WeightOf(F x) {
  const auto times_e_to = [](F n, F of) __attribute__((always_inline)) {
    const F r = Fma(n, Splat<F>(-kLn2Low), Fma(n, Splat<F>(-kLn2High), of));
    F p = Splat<F>(0.00138145988f);
    p = Step(p, r, 0.00836871658f);
    p = Step(p, r, 0.041668389f);
    p = Step(p, r, 0.166665211f);
    p = Step(p, r, 0.49999994f);
    return Step(Step(p, r, 1.0f), r, 1.0f);
  };
#if defined(__AVX512F__)
  if constexpr (sizeof(F) == 64) {
    const F n =
        _mm512_roundscale_ps(x * 1.44269504f, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    return _mm512_maskz_scalef_ps(_mm512_cmp_ps_mask(x, _mm512_set1_ps(kLeastExp), _CMP_NLT_UQ),
                                  times_e_to(n, x), n);
  }
#endif
  const F c = x < kLeastExp ? Splat<F>(kLeastExp) : x, shifted = c * 1.44269504f + kRoundMagic;
  return x < kLeastExp ? F{} : ScaleByPower(times_e_to(shifted - kRoundMagic, c), shifted);
}

// The scores of a row, minus infinity where a key does not count; their largest in each lane.
#if defined(__AVX512F__)
EVOQ_ALWAYS_INLINE Sixteen Bias(float* s, const ScoreRow& row) {
  Sixteen most = Splat<Sixteen>(-kInfinity);
  if (row.plain() && row.begin == 0 && row.end == kKeyBlock) {
#pragma GCC unroll 4
    for (int i = 0; i < kKeyBlock; i += 16) {
      const Sixteen x = row.scale * LoadVec<float, 16>(s + i);
      StoreVec<float, 16>(s + i, x);
      most = Larger(most, x);
    }
    return most;
  }
  const uint64_t seen = (row.end < kKeyBlock ? (uint64_t{1} << row.end) - 1 : ~uint64_t{0}) &
                        (row.begin < kKeyBlock ? ~uint64_t{0} << row.begin : 0);
  for (int i = 0; i < kKeyBlock; i += 16) {
    auto kept = static_cast<__mmask16>(seen >> i);
    Sixteen x = row.scale * LoadVec<float, 16>(s + i);
    if (row.softcap > 0) x = row.softcap * TanhInline(x / row.softcap);
    if (row.bias != nullptr)
      x = _mm512_mask_add_ps(x, kept, x, _mm512_maskz_loadu_ps(kept, row.bias + i));
    if (row.kept != nullptr) {
      const __m128i bytes = _mm_maskz_loadu_epi8(kept, row.kept + i);
      kept = _mm_test_epi8_mask(bytes, bytes);
    }
    x = _mm512_mask_mov_ps(Splat<Sixteen>(-kInfinity), kept, x);
    StoreVec<float, 16>(s + i, x);
    most = Larger(most, x);
  }
  return most;
}

// Of eight rows, in each vector's lanes: row r's combined in lanes 2 r and 2 r + 1, those 8 apart
// first, then 4, 2 and 1.
template <typename Combine>
EVOQ_ALWAYS_INLINE Sixteen EachAcross(const Sixteen (&v)[8], const Combine& combine) {
  const Sixteen even = Folded<4>(Folded<8>(v[0], v[4], combine), Folded<8>(v[2], v[6], combine),
                                 combine),
                odd = Folded<4>(Folded<8>(v[1], v[5], combine), Folded<8>(v[3], v[7], combine),
                                combine);
  const Sixteen by2 = Folded<2>(even, odd, combine);
  return Folded<1>(by2, by2, combine);
}
static_assert(kMaxAttentionRows == 8 && sizeof(SoftmaxState) == 2 * sizeof(float));

// BaseOf of each.
EVOQ_ALWAYS_INLINE Sixteen BasesOf(Sixteen max) {
  return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(max, Splat<Sixteen>(-kInfinity), _CMP_NEQ_UQ), max);
}

// Each step for all rows: one alone waits for its largest score, then for its exponentials, then
// for their sum. States lie as EachAcross leaves what is added to them.
void Soften(const SoftenRows& rows) {
  const auto lanes = static_cast<__mmask16>((1u << (2 * rows.count)) - 1);
  constexpr __mmask16 kSums = 0xaaaa;
  Sixteen each[kMaxAttentionRows] = {};
  for (int r = 0; r < rows.count; ++r) each[r] = Bias(rows.scores + r * kKeyBlock, rows.row[r]);
  const Sixteen states = _mm512_maskz_loadu_ps(lanes, rows.states),
                before = _mm512_moveldup_ps(states), block = EachAcross(each, Larger),
                max = Larger(before, block);
  const bool own = rows.now != nullptr;
  const Sixteen base_of_all = BasesOf(max), base = own ? BasesOf(block) : base_of_all;
  const Sixteen earlier = WeightOf(before - base_of_all);
  float bases[16];
  StoreVec<float, 16>(bases, base);
  for (int r = 0; r < rows.count; ++r) {
    float* const s = rows.scores + r * kKeyBlock;
    each[r] = Sixteen{};
#pragma GCC unroll 4
    for (int i = 0; i < kKeyBlock; i += 16) {
      if (i % 32 == 0) rows.ahead->Beat();
      const Sixteen x = WeightOf(LoadVec<float, 16>(s + i) - bases[2 * r]);
      StoreVec<float, 16>(s + i, x);
      each[r] = each[r] + x;
    }
  }
  Sixteen added = EachAcross(each, Sum);
  const auto firsts = static_cast<__mmask16>(lanes & ~kSums);
  if (own) {
    const Sixteen now = WeightOf(block - base_of_all);
    added = added * now;
    _mm512_mask_compressstoreu_ps(rows.now, firsts, now);
  }
  const Sixteen sums = states * earlier + added;
  _mm512_mask_storeu_ps(rows.states, lanes, _mm512_mask_mov_ps(max, kSums, sums));
  _mm512_mask_compressstoreu_ps(rows.earlier, firsts, earlier);
}
#else
void Soften(const SoftenRows& rows) {
  for (int r = 0; r < rows.count; ++r) {
    for (int i = 0; i < kSixteens; ++i) rows.ahead->Beat();
    const ScoreRow& row = rows.row[r];
    float* const s = rows.scores + r * kKeyBlock;
    for (int j = 0; j < kKeyBlock; ++j) s[j] = row.scale * s[j];
    if (row.softcap > 0) {
      for (int j = 0; j < kKeyBlock; ++j) s[j] = row.softcap * TanhInline(s[j] / row.softcap);
    }
    if (row.bias != nullptr) {
      for (int64_t j = row.begin; j < row.end; ++j) s[j] += row.bias[j];
    }
    if (row.kept != nullptr) {
      for (int64_t j = row.begin; j < row.end; ++j) s[j] = row.kept[j] != 0 ? s[j] : -kInfinity;
    }
    for (int64_t j = 0; j < row.begin; ++j) s[j] = -kInfinity;
    for (int64_t j = row.end; j < kKeyBlock; ++j) s[j] = -kInfinity;
    Sixteen largest = Splat<Sixteen>(-kInfinity);
    for (int i = 0; i < kSixteens; ++i) largest = Larger(largest, LoadVec<float, 16>(s + 16 * i));
    SoftmaxState& state = rows.states[r];
    const float block = Across(largest, Larger), before = state.max;
    state.max = block > before ? block : before;
    const bool own = rows.now != nullptr;
    const float base_of_all = BaseOf(state.max), base = own ? BaseOf(block) : base_of_all,
                earlier = WeightOf(before - base_of_all);
    for (int j = 0; j < kKeyBlock; ++j) s[j] = WeightOf(s[j] - base);
    Sixteen sum = {};
    for (int i = 0; i < kSixteens; ++i) sum = sum + LoadVec<float, 16>(s + 16 * i);
    float added = Across(sum, Sum);
    if (own) added *= rows.now[r] = WeightOf(block - base_of_all);
    state.sum = state.sum * earlier + added;
    rows.earlier[r] = earlier;
  }
}
#endif

void Rotate(const float* x, const float* cosines, const float* sines, float* y, int64_t half,
            bool interleaved) {
  const int64_t step = interleaved ? 2 : 1, apart = interleaved ? 1 : half;
  const auto turn = [&](int64_t first, int64_t second, int64_t k) {
    const float a = x[first], b = x[second];
    y[first] = cosines[k] * a - sines[k] * b;
    y[second] = sines[k] * a + cosines[k] * b;
  };
  if (step == 1) {
    EVOQ_ELEMENTWISE
    for (int64_t k = 0; k < half; ++k) turn(k, k + apart, k);
  } else {
    EVOQ_ELEMENTWISE
    for (int64_t k = 0; k < half; ++k) turn(2 * k, 2 * k + 1, k);
  }
}

}  // namespace

extern const AttentionTable kAttentionTable;
const AttentionTable kAttentionTable = {.rows = kRows,
                                        .columns = kVectors * kLanes,
                                        .dot_rows = kDotRows,
                                        .dot_keys = kDotKeys,
                                        .product = Product<float>,
                                        .product_half = Product<uint16_t>,
                                        .widen = Widen,
                                        .dequantize = Dequantize,
                                        .largest = Largest,
                                        .quantize = Quantize,
                                        .dots = Dots<float>,
                                        .dots_half = Dots<uint16_t>,
                                        .soften = Soften,
                                        .rotate = Rotate};

}  // namespace evoq::EVOQ_ISA
