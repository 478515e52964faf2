#define EVOQ_ISA scalar
#include "kernels/quantize/quantize.inl.h"

#if defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace evoq::scalar {
namespace {

#if defined(__aarch64__)
// A lookup in 64 entries leaves what there was where the index is larger, also after it went below
// 0.
void Lookup(const uint8_t* table, const uint8_t* x, uint8_t* y, int64_t n) {
  uint8x16x4_t part[4];
  for (int i = 0; i < 4; ++i) part[i] = vld1q_u8_x4(table + 64 * i);
  const uint8x16_t entries = vdupq_n_u8(64);
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    uint8x16_t index = vld1q_u8(x + i), found = vqtbl4q_u8(part[0], index);
    for (int k = 1; k < 4; ++k) {
      index = vsubq_u8(index, entries);
      found = vqtbx4q_u8(found, part[k], index);
    }
    vst1q_u8(y + i, found);
  }
  LookupPlain(table, x + i, y + i, n - i);
}
#else
constexpr auto Lookup = LookupPlain;
#endif

}  // namespace

extern const QuantizeTable kQuantizeTable = {
    .quantize = Quantize,
    .quantize_words = QuantizeWords,
    .dequantize = Dequantize,
    .quantize_each = QuantizeEach,
    .quantize_words_each = QuantizeWordsEach,
    .dequantize_each = DequantizeEach,
    .range = Range,
    .lookup = Lookup,
};
}  // namespace evoq::scalar
