#define EVOQ_ISA avx2
#include "kernels/quantize/quantize.inl.h"

namespace evoq::avx2 {
extern const QuantizeTable kQuantizeTable = {Quantize,       Dequantize, QuantizeEach,
                                             DequantizeEach, Range,      LookupPlain};
}
