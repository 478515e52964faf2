#define EVOQ_ISA avx2
#include "kernels/dwconv/dwconv_f32.inl.h"

namespace evoq::avx2 {
extern const DwBf16Table kDwBf16Table = {
    .rows = RowsOf<uint16_t>,
};
}
