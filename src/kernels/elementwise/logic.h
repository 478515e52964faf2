// Comparisons and logic of two values, and the choice between two.
#pragma once

#include <cstdint>

#include "kernels/isa_table.h"

namespace evoq {

// EVOQ_LOGIC(ONNX operator, definition in a and b)
#define EVOQ_LOGIC_LIST                \
  EVOQ_LOGIC(Equal, a == b)            \
  EVOQ_LOGIC(Greater, a > b)           \
  EVOQ_LOGIC(GreaterOrEqual, a >= b)   \
  EVOQ_LOGIC(Less, a < b)              \
  EVOQ_LOGIC(LessOrEqual, a <= b)      \
  EVOQ_LOGIC(And, (a != 0) & (b != 0)) \
  EVOQ_LOGIC(Or, (a != 0) | (b != 0))  \
  EVOQ_LOGIC(Xor, (a != 0) != (b != 0))

enum class LogicKind {
#define EVOQ_LOGIC(op, definition) k##op,
  EVOQ_LOGIC_LIST
#undef EVOQ_LOGIC
};
enum class LogicElement { kUint8, kInt8, kInt32, kInt64, kFloat32 };

struct LogicTable {
  // A row of n elements: y[i] = f(a[i a_step], b[i b_step]) as 0 or 1; a step is 0 or 1.
  void (*compare)(LogicKind kind, LogicElement element, const void* a, const void* b, uint8_t* y,
                  int64_t n, int64_t a_step, int64_t b_step);
  // y[i] = c[i c_step] != 0 ? a[i a_step] : b[i b_step], elements of `size` bytes: 1, 2, 4 or 8.
  void (*select)(int size, const uint8_t* c, const void* a, const void* b, void* y, int64_t n,
                 int64_t c_step, int64_t a_step, int64_t b_step);
};
EVOQ_ISA_TABLE(LogicTable)

}  // namespace evoq
