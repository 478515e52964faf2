#define EVOQ_ISA avx512
#define EVOQ_OWN_AVERAGE  // the end of byte averages is here
#include "kernels/bytes512.h"
#include "kernels/pool/pool.inl.h"

namespace evoq::avx512 {
namespace {

// In 16 bits while the sums less their zero points fit; words widen and narrow inside 128-bit
// lanes.
inline bool AverageOf64(const OutputBounds& bounds, const Vec<uint16_t, 64>& sum, int32_t start,
                        int64_t taps, float multiplier, uint8_t* to) {
  if (taps > 128 || bounds.leaky || !(multiplier < 3e4f)) return false;
  const __m512i offset = _mm512_set1_epi16(static_cast<int16_t>(start));
  const __m512 scale = _mm512_set1_ps(multiplier);
  Floats v;
  for (int k = 0; k < 2; ++k) {
    __m512i words;
    std::memcpy(&words, reinterpret_cast<const char*>(&sum) + 64 * k, 64);
    words = _mm512_add_epi16(words, offset);
    const __m512i sign = _mm512_srai_epi16(words, 15);
    v.part[2 * k] = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_unpacklo_epi16(words, sign)), scale);
    v.part[2 * k + 1] =
        _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_unpackhi_epi16(words, sign)), scale);
  }
  const __m512i order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
  _mm512_storeu_si512(to, _mm512_permutexvar_epi64(order, ByteClamp(bounds).Finish(v)));
  return true;
}

}  // namespace
}  // namespace evoq::avx512
