#define EVOQ_ISA avx2
#include "kernels/quantize/quantize.inl.h"

// Behind the plain one.
#include "kernels/quantize/lookup256.inl.h"

namespace evoq::avx2 {
extern const QuantizeTable kQuantizeTable = {
    .quantize = Quantize,
    .quantize_words = QuantizeWords,
    .dequantize = Dequantize,
    .quantize_each = QuantizeEach,
    .quantize_words_each = QuantizeWordsEach,
    .dequantize_each = DequantizeEach,
    .range = Range,
    .lookup = Lookup256,
};
}
