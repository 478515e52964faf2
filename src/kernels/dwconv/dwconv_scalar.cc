#define EVOQ_ISA scalar
#include "kernels/dwconv/dwconv_f32.inl.h"
#include "kernels/dwconv/dwconv_int8.inl.h"

namespace evoq::scalar {
extern const DwTable kDwTable = {.int8_rows = Int8RowsPlain, .float_rows = RowsOf<float>};
}
