// Apply of math/unary.h over arrays.
#pragma once

#include <cstdint>

#include "kernels/isa_table.h"
#include "kernels/math/unary.h"

namespace evoq {

struct UnaryTable {
  // y[i] = Apply(unary, x[i]) for i < n; x may be y.
  void (*apply)(const Unary& unary, const float* x, float* y, int64_t n);
};
EVOQ_ISA_TABLE(UnaryTable)

}  // namespace evoq
