#define EVOQ_ISA scalar
#include "kernels/quantize/quantize.inl.h"

namespace evoq::scalar {
extern const QuantizeTable kQuantizeTable = {Quantize,       Dequantize, QuantizeEach,
                                             DequantizeEach, Range,      LookupPlain};
}
