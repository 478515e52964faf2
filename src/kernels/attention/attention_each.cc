#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <array>
#include <cstring>
#include <utility>

#include "kernels/attention/attention.h"
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

#if defined(__FMA__)
EVOQ_ALWAYS_INLINE float MulAdd(float a, float b, float c) { return Fma(a, b, c); }
#elif defined(__aarch64__)
EVOQ_ALWAYS_INLINE float MulAdd(float a, float b, float c) { return Fma(a, b, c); }
EVOQ_ALWAYS_INLINE Floats MulAdd(float a, Floats b, Floats c) {
  for (int i = 0; i < kLanes; ++i) c[i] = Fma(a, b[i], c[i]);
  return c;
}
#else
EVOQ_ALWAYS_INLINE float MulAdd(float a, float b, float c) { return a * b + c; }
EVOQ_ALWAYS_INLINE Floats MulAdd(float a, Floats b, Floats c) { return a * b + c; }
#endif

EVOQ_ALWAYS_INLINE float Widened(float x) { return x; }
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
EVOQ_ALWAYS_INLINE Floats Load(const uint16_t* p) {
  Floats v;
  for (int i = 0; i < kLanes; ++i) v[i] = Widened(p[i]);
  return v;
}
#endif

// kTile vectors of columns of kTileRows rows.
template <typename T, int kTileRows, int kTile>
EVOQ_ALWAYS_INLINE void Tile(const RowsByBlock& p, int64_t column) {
  Floats acc[kTileRows][kTile];
#pragma GCC unroll 8
  for (int r = 0; r < kTileRows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kTile; ++v)
      acc[r][v] = p.accumulate ? Load(p.y + r * p.y_step + column + v * kLanes) : Floats{};
  }
  const T* b = static_cast<const T*>(p.b) + column;
  for (int64_t k = 0; k < p.depth; ++k, b += p.b_step) {
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

template <typename T, int kTileRows>
void Rows(const RowsByBlock& p) {
  int64_t column = 0;
  for (; column + kVectors * kLanes <= p.columns; column += kVectors * kLanes)
    Tile<T, kTileRows, kVectors>(p, column);
  for (; column + kLanes <= p.columns; column += kLanes) Tile<T, kTileRows, 1>(p, column);
  for (; column < p.columns; ++column) {
    const T* const b = static_cast<const T*>(p.b) + column;
    for (int r = 0; r < kTileRows; ++r) {
      float& y = p.y[r * p.y_step + column];
      float sum = p.accumulate ? y : 0.0f;
      for (int64_t k = 0; k < p.depth; ++k)
        sum = MulAdd(p.a[r * p.a_step + k], Widened(b[k * p.b_step]), sum);
      y = sum;
    }
  }
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

float Soften(float* s, const ScoreRow& row, SoftmaxState& state) {
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
  const float block = MaxInline(s, kKeyBlock), max = block > state.max ? block : state.max;
  const float base = max == -kInfinity ? 0.0f : max;  // nothing counts yet
  for (int j = 0; j < kKeyBlock; ++j) s[j] = ExpInline(s[j] - base);
  const float sum = SumTerms(kKeyBlock, [s](int64_t j) { return s[j]; });
  const float earlier = ExpInline(state.max - base);
  state = {max, state.sum * earlier + sum};
  return earlier;
}

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
                                        .product = Product<float>,
                                        .product_half = Product<uint16_t>,
                                        .soften = Soften,
                                        .rotate = Rotate};

}  // namespace evoq::EVOQ_ISA
