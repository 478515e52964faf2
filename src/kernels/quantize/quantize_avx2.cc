#define EVOQ_ISA avx2
#include "kernels/quantize/quantize.inl.h"

namespace evoq::avx2 {
extern const QuantizeTable kQuantizeTable = {
    .quantize = Quantize,
    .dequantize = Dequantize,
    .quantize_each = QuantizeEach,
    .dequantize_each = DequantizeEach,
    .range = Range,
    .lookup = LookupPlain,
};
}
