// int4 and uint4 weights, two to a byte: those of an even k in the low bits, of the next in the
// high ones.
#include "kernels/gemm/weights/packed.inl.h"

namespace evoq::EVOQ_ISA {
namespace {

#if defined(__AVX2__) && !defined(__AVX512F__)
// Shifts take fewer instructions than a table.
struct Int4 {
  static constexpr bool kApart = true, kZeros = true;
  static constexpr int kGroup = 2, kGroupBytes = kWeightColumns;

  static Panel Numbers(bool) { return {}; }
  template <bool kSign>
  EVOQ_ALWAYS_INLINE static Panel Values(const uint8_t* p, int g, const Panel&) {
    const auto half = [&](int i) {
      __m256i q = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p + i)));
      q = _mm256_slli_epi32(q, 28 - 4 * g);
      return _mm256_cvtepi32_ps(kSign ? _mm256_srai_epi32(q, 28) : _mm256_srli_epi32(q, 28));
    };
    return {half(0), half(8)};
  }
};
#else
struct Int4 : LookedUp<4> {
  static constexpr bool kZeros = true;

  EVOQ_ALWAYS_INLINE static Panel Numbers(bool is_signed) {
    alignas(64) static constexpr float kSigned[16] = {0,  1,  2,  3,  4,  5,  6,  7,
                                                      -8, -7, -6, -5, -4, -3, -2, -1},
                                       kUnsigned[16] = {0, 1, 2,  3,  4,  5,  6,  7,
                                                        8, 9, 10, 11, 12, 13, 14, 15};
    return LoadAll(is_signed ? kSigned : kUnsigned);
  }
};
#endif

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
