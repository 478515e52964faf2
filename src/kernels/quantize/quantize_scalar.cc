#define EVOQ_ISA scalar
#include "kernels/quantize/quantize.inl.h"

namespace evoq::scalar {
extern const QuantizeTable kQuantizeTable = {
    .quantize = Quantize,
    .quantize_words = QuantizeWords,
    .dequantize = Dequantize,
    .quantize_each = QuantizeEach,
    .quantize_words_each = QuantizeWordsEach,
    .dequantize_each = DequantizeEach,
    .range = Range,
    .lookup = LookupPlain,
};
}
