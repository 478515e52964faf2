#define EVOQ_ISA avx512
#include <immintrin.h>

#include "kernels/bytes512.h"
#include "kernels/quantize/quantize.inl.h"

// Behind the plain one.
#include "kernels/quantize/lookup256.inl.h"

namespace evoq::avx512 {
namespace {

// 128 entries per vpermi2b; the index's top bit chooses between the halves. VBMI is not part of
// Isa::kAvx512: asked here.
__attribute__((target("avx512vbmi"))) void LookupVbmi(const uint8_t* table, const uint8_t* x,
                                                      uint8_t* y, int64_t n) {
  const __m512i t0 = _mm512_loadu_si512(table), t1 = _mm512_loadu_si512(table + 64);
  const __m512i t2 = _mm512_loadu_si512(table + 128), t3 = _mm512_loadu_si512(table + 192);
  for (int64_t i = 0; i < n; i += 64) {
    const __mmask64 mask = n - i >= 64 ? ~__mmask64{0} : (__mmask64{1} << (n - i)) - 1;
    const __m512i index = _mm512_maskz_loadu_epi8(mask, x + i);
    const __m512i low = _mm512_permutex2var_epi8(t0, index, t1),
                  high = _mm512_permutex2var_epi8(t2, index, t3);
    _mm512_mask_storeu_epi8(y + i, mask,
                            _mm512_mask_blend_epi8(_mm512_movepi8_mask(index), low, high));
  }
}

void Lookup(const uint8_t* table, const uint8_t* x, uint8_t* y, int64_t n) {
  static const bool has_vbmi = __builtin_cpu_supports("avx512vbmi");
  return has_vbmi ? LookupVbmi(table, x, y, n) : Lookup256(table, x, y, n);
}

// 64 values, each below 2^31, in the order of memory.
inline void StoreBytes(const Floats& v, __m512i zero16, IntegerRange range, uint8_t* q) {
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m512i bytes = range.low < 0 ? NarrowSigned(v, zero16) : NarrowUnsigned(v, zero16);
  _mm512_storeu_si512(q, _mm512_permutexvar_epi32(order, bytes));
}

// kernels/quantize/divisor.h; blocks with a NaN divide.
int64_t QuantizeExact512(const float* x, uint8_t* q, int64_t n, const Divisor& by, int32_t zero,
                         IntegerRange range) {
  const __m512 high = _mm512_set1_ps(by.high), low = _mm512_set1_ps(by.low),
               most = _mm512_set1_ps(512.0f);
  const __m512i zero16 = _mm512_set1_epi16(static_cast<int16_t>(zero));
  int64_t i = 0;
  for (; i + 64 <= n; i += 64) {
    Floats v;
    for (int k = 0; k < 4; ++k) {
      const __m512 value = _mm512_loadu_ps(x + i + 16 * k);
      v.part[k] = _mm512_min_ps(most, _mm512_fmadd_ps(value, high, _mm512_mul_ps(value, low)));
    }
    const __mmask16 nan = _mm512_cmp_ps_mask(v.part[0], v.part[1], _CMP_UNORD_Q) |
                          _mm512_cmp_ps_mask(v.part[2], v.part[3], _CMP_UNORD_Q);
    nan != 0 ? Quantize(x + i, q + i, 64, by, zero, range) : StoreBytes(v, zero16, range, q + i);
  }
  return i;
}

// x * (1 / scale) differs from x / scale by less than 2^-13 where it does not saturate (|.| < 512).
// So both round to the same integer unless the product lies that close to a tie; blocks in which
// one does (or is NaN) divide.
int64_t QuantizeNear512(const float* x, uint8_t* q, int64_t n, const Divisor& by, int32_t zero,
                        IntegerRange range) {
  const float inverse = 1.0f / by.scale;
  if (!(inverse > 1e-30f && inverse < 1e30f)) return 0;  // a normal number, correctly rounded
  const __m512 factor = _mm512_set1_ps(inverse), most = _mm512_set1_ps(512.0f);
  const __m512i magnitude = _mm512_set1_epi32(0x7fffffff),
                tie = _mm512_set1_epi32(0x3efff000);  // 0.5 - 2^-13
  const __m512i zero16 = _mm512_set1_epi16(static_cast<int16_t>(zero));
  int64_t i = 0;
  for (; i + 64 <= n; i += 64) {
    Floats v;
    __m512i off = _mm512_setzero_si512();
    for (int k = 0; k < 4; ++k) {
      v.part[k] = _mm512_min_ps(most, _mm512_mul_ps(_mm512_loadu_ps(x + i + 16 * k), factor));
      const __m512 d = _mm512_reduce_ps(v.part[k], _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
      off = _mm512_max_epu32(off, _mm512_and_si512(_mm512_castps_si512(d), magnitude));
    }
    const bool near = _mm512_cmpge_epu32_mask(off, tie) != 0;
    near ? Quantize(x + i, q + i, 64, by, zero, range) : StoreBytes(v, zero16, range, q + i);
  }
  return i;
}

void Quantize512(const float* x, uint8_t* q, int64_t n, const Divisor& by, int32_t zero,
                 IntegerRange range) {
  const int64_t done = by.exact ? QuantizeExact512(x, q, n, by, zero, range)
                                : QuantizeNear512(x, q, n, by, zero, range);
  Quantize(x + done, q + done, n - done, by, zero, range);
}

}  // namespace

extern const QuantizeTable kQuantizeTable = {
    .quantize = Quantize512,
    .quantize_words = QuantizeWords,
    .dequantize = Dequantize,
    .quantize_each = QuantizeEach,
    .quantize_words_each = QuantizeWordsEach,
    .dequantize_each = DequantizeEach,
    .range = Range,
    .lookup = Lookup,
};

}  // namespace evoq::avx512
