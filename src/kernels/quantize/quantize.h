// QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear:
//   q = saturate(round_half_even(x / scale) + zero), NaN becomes the zero point;   x = float32(q -
//   zero) * scale
// with one scale and zero point, or one per index of an axis.
#pragma once

#include <cstdint>

#include "kernels/isa_table.h"
#include "kernels/quantize/divisor.h"

namespace evoq {

// The integers of a type: [0, 255] of uint8, [-32768, 32767] of int16.
struct IntegerRange {
  int32_t low = 0;
  int32_t high = 255;
};

enum class IntegerKind { kUint8, kInt8, kUint16, kInt16, kInt32 };

struct QuantizeTable {
  // n elements with one scale.
  void (*quantize)(const float* x, uint8_t* q, int64_t n, const Divisor& by, int32_t zero,
                   IntegerRange range);
  void (*quantize_words)(const float* x, uint16_t* q, int64_t n, float scale, int32_t zero,
                         IntegerRange range);
  void (*dequantize)(const void* q, IntegerKind kind, float* x, int64_t n, float scale,
                     int32_t zero);
  // n elements with a scale and a zero point each.
  void (*quantize_each)(const float* x, uint8_t* q, int64_t n, const float* scale,
                        const int32_t* zero, IntegerRange range);
  void (*quantize_words_each)(const float* x, uint16_t* q, int64_t n, const float* scale,
                              const int32_t* zero, IntegerRange range);
  void (*dequantize_each)(const void* q, IntegerKind kind, float* x, int64_t n, const float* scale,
                          const int32_t* zero);
  // Smallest and largest of 0 and the elements; NaNs are skipped.
  void (*range)(const float* x, int64_t n, float* low, float* high);
  // y[i] = table[x[i]].
  void (*lookup)(const uint8_t* table, const uint8_t* x, uint8_t* y, int64_t n);
};
EVOQ_ISA_TABLE(QuantizeTable)

}  // namespace evoq
