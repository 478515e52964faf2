// int8 and uint8 weights, a byte each.
#include "kernels/gemm/weights/product.inl.h"

namespace evoq::EVOQ_ISA {
namespace {

struct Int8 {
  static constexpr bool kApart = true, kZeros = true;
  static constexpr int kGroup = 1, kGroupBytes = kWeightColumns;

  static Panel Numbers(bool) { return {}; }
  template <bool kSign>
  EVOQ_ALWAYS_INLINE static Panel Values(const uint8_t* p, int, const Panel&) {
#if defined(__AVX512F__)
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return {_mm512_cvtepi32_ps(kSign ? _mm512_cvtepi8_epi32(bytes) : _mm512_cvtepu8_epi32(bytes))};
#elif defined(__AVX2__)
    const auto half = [&](int i) {
      const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p + i));
      return _mm256_cvtepi32_ps(kSign ? _mm256_cvtepi8_epi32(bytes) : _mm256_cvtepu8_epi32(bytes));
    };
    return {half(0), half(8)};
#else
    Panel w;
    for (int i = 0; i < kWeightColumns; ++i)
      w.v[i] = static_cast<float>(kSign ? static_cast<int8_t>(p[i]) : static_cast<int>(p[i]));
    return w;
#endif
  }
};

void Copy(const uint8_t* from, int64_t depth, uint8_t* to) {
  if (depth > 0) std::memcpy(to, from, static_cast<size_t>(depth) * kWeightColumns);
}

}  // namespace

extern const WeightFormat kWeightsInt8;
const WeightFormat kWeightsInt8 = {
    .name = "int8",
    .layout = "k1n16-matmul-w8",
    .formula = "[N/16][K][16] bytes: b[k, n] at (n/16, k, n%16); N filled up with zeros",
    .bits = 8,
    .dtypes = {DType::kInt8, DType::kUint8},
    .block = 1,
    .zeros = WeightZeros::kColumns,
    .panel_bytes = PanelBytes<Int8>,
    .pack = Copy,
    .unpack = Copy,
    .real = Real<Int8>,
    .dot = Dot<Int8>,
};

}  // namespace evoq::EVOQ_ISA
