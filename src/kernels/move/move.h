// Moving elements without looking at them, by element size: 1, 2, 4 or 8 bytes.
#pragma once

#include <cstdint>

#include "kernels/isa_table.h"

namespace evoq {

struct MoveTable {
  // y[j][i] = x[i][j] for i < rows, j < columns: elements of `size` bytes, row strides in elements.
  void (*transpose)(const void* x, void* y, int64_t rows, int64_t columns, int64_t x_stride, int64_t y_stride, int size);
};
EVOQ_ISA_TABLE(MoveTable)

}  // namespace evoq
