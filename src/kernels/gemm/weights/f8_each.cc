// float8e4m3fn and float8e5m2 weights, a byte each: float16 numbers of which the low bits are 0,
// but that float8e4m3fn has a bit of the exponent less, and one NaN of each sign and no infinity.
#include "kernels/gemm/weights/product.inl.h"

namespace evoq::EVOQ_ISA {
namespace {

#if !defined(__AVX2__)
// 2^exponent.
constexpr float Power(int exponent) {
  return __builtin_bit_cast(float, static_cast<uint32_t>(exponent + 127) << 23);
}

// A format of kMantissa bits behind 7 - kMantissa of the exponent.
template <int kMantissa>
constexpr float Number(int bits) {
  constexpr int kBias = kMantissa == 3 ? 7 : 15, kMost = 0x7f >> kMantissa;
  const int exponent = bits >> kMantissa & kMost, mantissa = bits & ((1 << kMantissa) - 1);
  const bool special = exponent == kMost && (kMantissa == 2 || mantissa == 7);
  const float fraction = static_cast<float>(mantissa) / (1 << kMantissa);
  const float magnitude = special         ? (mantissa == 0 ? __builtin_inff() : __builtin_nanf(""))
                          : exponent == 0 ? fraction * Power(1 - kBias)
                                          : (1 + fraction) * Power(exponent - kBias);
  return (bits & 0x80) != 0 ? -magnitude : magnitude;
}

template <int kMantissa>
struct Table {
  float v[256];
  constexpr Table() : v() {
    for (int i = 0; i < 256; ++i) v[i] = Number<kMantissa>(i);
  }
};
#endif

template <int kMantissa>
struct Float8 {
  static constexpr bool kApart = false, kZeros = false;
  static constexpr int kGroup = 1, kGroupBytes = kWeightColumns;

  static Panel Numbers(bool) { return {}; }
  template <bool kSign>
  EVOQ_ALWAYS_INLINE static Panel Values(const uint8_t* p, int, const Panel&) {
#if defined(__AVX2__)
    const __m256i q = _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    __m256i half = _mm256_slli_epi16(q, 8);
    if constexpr (kMantissa == 3) {
      // The value times 2^-8: the exponent's bias is 8 less than float16's. 0x7f is NaN.
      const __m256i magnitude = _mm256_and_si256(q, _mm256_set1_epi16(0x7f));
      const __m256i nan = _mm256_cmpeq_epi16(magnitude, _mm256_set1_epi16(0x7f));
      half = _mm256_or_si256(_mm256_and_si256(half, _mm256_set1_epi16(-0x8000)),
                             _mm256_slli_epi16(magnitude, 7));
      half = _mm256_or_si256(half, _mm256_and_si256(nan, _mm256_set1_epi16(0x7e00)));
    }
#if defined(__AVX512F__)
    const Panel w = {_mm512_cvtph_ps(half)};
#else
    const Panel w = {_mm256_cvtph_ps(_mm256_castsi256_si128(half)),
                     _mm256_cvtph_ps(_mm256_extracti128_si256(half, 1))};
#endif
    if constexpr (kMantissa == 3) return Mul(w, Broadcast(256));
    return w;
#else
    static constexpr Table<kMantissa> kNumbers;
    Panel w;
    for (int i = 0; i < kWeightColumns; ++i) w.v[i] = kNumbers.v[p[i]];
    return w;
#endif
  }
};

void Copy(const uint8_t* from, int64_t depth, uint8_t* to) {
  if (depth > 0) std::memcpy(to, from, static_cast<size_t>(depth) * kWeightColumns);
}

}  // namespace

extern const WeightFormat kWeightsE4m3, kWeightsE5m2;
const WeightFormat kWeightsE4m3 = {
    .name = "float8e4m3fn",
    .layout = "k1n16-matmul-e4m3",
    .formula = "[N/16][K][16] bytes: b[k, n] at (n/16, k, n%16); N filled up with zeros",
    .bits = 8,
    .dtypes = {DType::kFloat8E4M3FN},
    .block = 1,
    .zeros = WeightZeros::kNone,
    .panel_bytes = PanelBytes<Float8<3>>,
    .pack = Copy,
    .unpack = Copy,
    .real = Real<Float8<3>>,
    .dot = Dot<Float8<3>>,
};
const WeightFormat kWeightsE5m2 = {
    .name = "float8e5m2",
    .layout = "k1n16-matmul-e5m2",
    .formula = "[N/16][K][16] bytes: b[k, n] at (n/16, k, n%16); N filled up with zeros",
    .bits = 8,
    .dtypes = {DType::kFloat8E5M2},
    .block = 1,
    .zeros = WeightZeros::kNone,
    .panel_bytes = PanelBytes<Float8<2>>,
    .pack = Copy,
    .unpack = Copy,
    .real = Real<Float8<2>>,
    .dot = Dot<Float8<2>>,
};

}  // namespace evoq::EVOQ_ISA
