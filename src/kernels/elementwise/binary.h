// Operators of two values. float32: y = a op b. Quantized uint8: dequantize, compute in float32,
// quantize (division by the scale), but Add and Mul, which have their own definitions:
// kernels/add_terms.h, kernels/requant.h.
#pragma once

#include <cstdint>

#include "kernels/bounds.h"
#include "kernels/isa_table.h"

namespace evoq {

// EVOQ_BINARY(ONNX operator, definition in a and b). A NaN gives NaN, but in pow(1, b), pow(a, 0).
// clang-format off
#define EVOQ_BINARY_LIST                \
  EVOQ_BINARY(Add, a + b)               \
  EVOQ_BINARY(Sub, a - b)               \
  EVOQ_BINARY(Mul, a * b)               \
  EVOQ_BINARY(Div, a / b)               \
  EVOQ_BINARY(Max, MaximumInline(a, b)) \
  EVOQ_BINARY(Min, MinimumInline(a, b)) \
  EVOQ_BINARY(Pow, PowInline(a, b))     \
  EVOQ_BINARY(PRelu, a < 0.0f ? a * b : a)
// clang-format on

enum class BinaryKind {
#define EVOQ_BINARY(op, definition) k##op,
  EVOQ_BINARY_LIST
#undef EVOQ_BINARY
};

struct BinaryByteArgs {
  BinaryKind kind = BinaryKind::kAdd;
  // Add: AddTerms' ratios. Mul: scale_a is the product's multiplier, scale_b unused (0).
  float scale_a = 1, scale_b = 1;
  float constant = 0, middle = 0;  // of Add: AddTerms' constant and the output's zero point
  int32_t zero_a = 0, zero_b = 0;
  float scale_y = 1;
  OutputBounds bounds;
};

// `rows` rows of n elements, those of y behind each other: y[r n + i] = f(a[r a_row + i a_step],
// b[r b_row + i b_step]). A step is 1, or 0 for one element along the row.
struct BinaryRows {
  int64_t n = 0, rows = 1;
  int64_t a_step = 1, b_step = 1;
  int64_t a_row = 0, b_row = 0;
};

struct BinaryTable {
  // A row of n elements.
  void (*f32)(BinaryKind kind, const float* a, const float* b, float* y, int64_t n, int64_t a_step,
              int64_t b_step);
  void (*u8)(const BinaryByteArgs& args, const uint8_t* a, const uint8_t* b, uint8_t* y,
             const BinaryRows& rows);
};
EVOQ_ISA_TABLE(BinaryTable)

}  // namespace evoq
