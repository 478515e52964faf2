#define EVOQ_ISA avx512
#include <immintrin.h>

#include "kernels/quantize/quantize.inl.h"

namespace evoq::avx512 {
namespace {

// 128 entries per vpermi2b; the index's top bit chooses between the halves. VBMI is not part of Isa::kAvx512: asked here.
__attribute__((target("avx512vbmi"))) void LookupVbmi(const uint8_t* table, const uint8_t* x, uint8_t* y, int64_t n) {
  const __m512i t0 = _mm512_loadu_si512(table), t1 = _mm512_loadu_si512(table + 64);
  const __m512i t2 = _mm512_loadu_si512(table + 128), t3 = _mm512_loadu_si512(table + 192);
  for (int64_t i = 0; i < n; i += 64) {
    const __mmask64 mask = n - i >= 64 ? ~__mmask64{0} : (__mmask64{1} << (n - i)) - 1;
    const __m512i index = _mm512_maskz_loadu_epi8(mask, x + i);
    const __m512i low = _mm512_permutex2var_epi8(t0, index, t1), high = _mm512_permutex2var_epi8(t2, index, t3);
    _mm512_mask_storeu_epi8(y + i, mask, _mm512_mask_blend_epi8(_mm512_movepi8_mask(index), low, high));
  }
}

void Lookup(const uint8_t* table, const uint8_t* x, uint8_t* y, int64_t n) {
  static const bool has_vbmi = __builtin_cpu_supports("avx512vbmi");
  return has_vbmi ? LookupVbmi(table, x, y, n) : LookupPlain(table, x, y, n);
}

}  // namespace

extern const QuantizeTable kQuantizeTable = {Quantize, Dequantize, QuantizeEach, DequantizeEach, Range, Lookup};

}  // namespace evoq::avx512
