// float16 rows: HalfToFloat and FloatToHalf of tensor/dtype.h, bit for bit, in vectors.
#pragma once

#include <cstdint>

#include "kernels/isa_table.h"

namespace evoq {

struct HalfTable {
  void (*widen)(const uint16_t* x, float* y, int64_t n);
  void (*narrow)(const float* x, uint16_t* y, int64_t n);
};
EVOQ_ISA_TABLE(HalfTable)

}  // namespace evoq
