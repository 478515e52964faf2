// For formats of 2 or 4 bits, in groups of 8 / kBits rows of a panel that share its bytes: row g of
// a group has the bits from kBits * g on.
#include "kernels/gemm/weights/product.inl.h"

namespace evoq::EVOQ_ISA {
namespace {

// Of row g of the group at `p`: values[bits], of 16, by the four bits from its own on where there
// are fewer, and values repeat themselves.
template <int kBits>
EVOQ_ALWAYS_INLINE Panel LookUp(const Panel& values, const uint8_t* p, int g) {
#if defined(__AVX512F__)
  // The permutation looks at the lowest four bits of each number. A rotation, since compilers
  // shift before they widen, and widen twice.
  const __m512i q = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  const __m512i index = g == 0 ? q : _mm512_rorv_epi32(q, _mm512_set1_epi32(kBits * g));
  return {_mm512_permutexvar_ps(index, values.v)};
#elif defined(__AVX2__)
  // Each permutation looks at the lowest three bits, the choice between them at the sign: the
  // fourth bit moved there.
  const auto half = [&](int i) {
    const __m256i q =
        _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p + i)));
    const __m256i index = _mm256_srli_epi32(q, kBits * g);
    const __m256 low = _mm256_permutevar8x32_ps(values.low, index);
    if constexpr (kBits < 4) return low;
    const __m256 high = _mm256_permutevar8x32_ps(values.high, index);
    return _mm256_blendv_ps(low, high, _mm256_castsi256_ps(_mm256_slli_epi32(index, 28)));
  };
  return {half(0), half(8)};
#else
  Panel w;
  for (int i = 0; i < kWeightColumns; ++i) w.v[i] = values.v[p[i] >> kBits * g & 15];
  return w;
#endif
}

// What formats have in common whose elements are found in a table of all their numbers, whichever
// of the types they are of.
template <int kBits>
struct LookedUp {
  static constexpr bool kApart = false;
  static constexpr int kGroup = 8 / kBits, kGroupBytes = kWeightColumns;

  template <bool kSign>
  EVOQ_ALWAYS_INLINE static Panel Values(const uint8_t* p, int g, const Panel& numbers) {
    return LookUp<kBits>(numbers, p, g);
  }
};

template <int kBits>
void PackBits(const uint8_t* elements, int64_t depth, uint8_t* panel) {
  constexpr int kGroup = 8 / kBits;
  if (depth > 0)
    std::memset(panel, 0, static_cast<size_t>((depth + kGroup - 1) / kGroup * kWeightColumns));
  for (int64_t i = 0; i < depth * kWeightColumns; ++i) {
    const int64_t k = i / kWeightColumns;
    panel[k / kGroup * kWeightColumns + i % kWeightColumns] |=
        static_cast<uint8_t>((elements[i] & ((1 << kBits) - 1)) << k % kGroup * kBits);
  }
}

template <int kBits>
void UnpackBits(const uint8_t* panel, int64_t depth, uint8_t* elements) {
  constexpr int kGroup = 8 / kBits;
  for (int64_t i = 0; i < depth * kWeightColumns; ++i) {
    const int64_t k = i / kWeightColumns;
    elements[i] = panel[k / kGroup * kWeightColumns + i % kWeightColumns] >> k % kGroup * kBits &
                  ((1 << kBits) - 1);
  }
}

}  // namespace
}  // namespace evoq::EVOQ_ISA
