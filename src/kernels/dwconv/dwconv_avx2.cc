#define EVOQ_ISA avx2
#include "kernels/dwconv/dwconv_f32.inl.h"
#include "kernels/dwconv/dwconv_int8.inl.h"

namespace evoq::avx2 {
extern const DwTable kDwTable = {Int8RowsPlain, FloatRows};
}
