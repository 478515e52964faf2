// Moving elements without looking at them, by element size: 1, 2, 4 or 8 bytes; and bytes that
// become float32 on the way.
#pragma once

#include <cstdint>

#include "kernels/isa_table.h"

namespace evoq {

// x = float32(q - zero) * scale of uint8 or int8.
struct ByteScale {
  float scale = 1;
  int32_t zero = 0;
  bool is_signed = false;
};

struct MoveTable {
  // y[j][i] = x[i][j] for i < rows, j < columns: elements of `size` bytes, row strides in elements.
  void (*transpose)(const void* x, void* y, int64_t rows, int64_t columns, int64_t x_stride,
                    int64_t y_stride, int size);
  // The same of bytes, with y in float32.
  void (*dequantize)(const ByteScale& by, const uint8_t* x, float* y, int64_t rows, int64_t columns,
                     int64_t x_stride, int64_t y_stride);
  // y[i][j] = x[i][from[j]] for i < rows, j < columns: elements of `size` bytes in rows of
  // x_columns and of columns.
  void (*pick)(const void* x, void* y, int64_t rows, int64_t columns, int64_t x_columns,
               const int32_t* from, int size);
};
EVOQ_ISA_TABLE(MoveTable)

}  // namespace evoq
