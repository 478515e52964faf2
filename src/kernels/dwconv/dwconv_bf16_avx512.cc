#define EVOQ_ISA avx512
#include "kernels/dwconv/dwconv_f32.inl.h"

namespace evoq::avx512 {
extern const DwBf16Table kDwBf16Table = {
    .rows = RowsOf<uint16_t>,
};
}
