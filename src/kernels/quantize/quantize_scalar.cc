#define EVOQ_ISA scalar
#include "kernels/quantize/quantize.inl.h"

namespace evoq::scalar {
extern const QuantizeTable kQuantizeTable = {
    .quantize = Quantize,
    .dequantize = Dequantize,
    .quantize_each = QuantizeEach,
    .dequantize_each = DequantizeEach,
    .range = Range,
    .lookup = LookupPlain,
};
}
