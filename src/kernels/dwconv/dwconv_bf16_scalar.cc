#define EVOQ_ISA scalar
#include "kernels/dwconv/dwconv_f32.inl.h"

namespace evoq::scalar {
extern const DwBf16Table kDwBf16Table = {
    .rows = RowsOf<uint16_t>,
};
}
