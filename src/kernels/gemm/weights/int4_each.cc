// int4 and uint4 weights, two to a byte: those of an even k in the low bits, of the next in the
// high ones.
#include "kernels/gemm/weights/packed.inl.h"

namespace evoq::EVOQ_ISA {
namespace {

struct Int4 {
  static constexpr bool kSigned = true, kUnsigned = true, kZeros = true;
  static constexpr int kGroup = 2, kGroupBytes = kWeightColumns;

  template <bool kSign>
  EVOQ_ALWAYS_INLINE static Panel Values(const uint8_t* p, int g) {
#if defined(__AVX512F__)
    // The permutation looks at the lowest four bits of each number. A rotation, since compilers
    // shift before they widen, and widen twice.
    constexpr int kHigh = kSign ? -8 : 8;  // what the bits of 8 stand for
    const __m512 values = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, kHigh, kHigh + 1, kHigh + 2,
                                         kHigh + 3, kHigh + 4, kHigh + 5, kHigh + 6, kHigh + 7);
    const __m512i q = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    return {_mm512_permutexvar_ps(g == 0 ? q : _mm512_ror_epi32(q, 4), values)};
#elif defined(__AVX2__)
    const auto half = [&](int i) {
      __m256i q = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p + i)));
      q = _mm256_slli_epi32(q, 28 - 4 * g);
      return _mm256_cvtepi32_ps(kSign ? _mm256_srai_epi32(q, 28) : _mm256_srli_epi32(q, 28));
    };
    return {half(0), half(8)};
#else
    Panel w;
    for (int i = 0; i < kWeightColumns; ++i) {
      const uint32_t top = uint32_t{p[i]} << (28 - 4 * g);
      w.v[i] = static_cast<float>(kSign ? static_cast<int32_t>(top) >> 28
                                        : static_cast<int32_t>(top >> 28));
    }
    return w;
#endif
  }
};

}  // namespace

extern const WeightFormat kWeightsInt4;
const WeightFormat kWeightsInt4 = {
    .name = "int4",
    .layout = "k2n16-matmul-w4",
    .formula =
        "[N/16][K/2][16] bytes: b[k, n] at (n/16, k/2, n%16), in the low 4 bits for even k, "
        "the high ones for odd k; K and N filled up with zeros",
    .bits = 4,
    .dtypes = {DType::kInt4, DType::kUint4},
    .block = 2,
    .zeros = WeightZeros::kBlocks,
    .panel_bytes = PanelBytes<Int4>,
    .pack = PackBits<4>,
    .unpack = UnpackBits<4>,
    .real = Real<Int4>,
    .dot = Dot<Int4>,
};

}  // namespace evoq::EVOQ_ISA
