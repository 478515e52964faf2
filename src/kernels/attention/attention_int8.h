// What attention over int8 keys and values is computed from, for each instruction set: products of
// integers of 16 bits, two of which an instruction multiplies and adds where one of float32 takes a
// single one. Queries and weights are rounded to 15 bits and a sign; sums of products are exact, so
// that every table gives the same ones.
//
// Keys and values are taken in blocks of kKeyBlock and laid out as pairs of int16 in an int32, the
// two that meet in a product: of keys, elements (0, 2) and (1, 3) of each four; of values, those of
// two neighbouring keys.
#pragma once

#include <cstdint>

#include "kernels/attention/attention.h"

namespace evoq {

inline constexpr float kMostInt16 = 32767;

// Scores of a block without their factor: y[r, j] = sum over blocks b of the row of
// float32(sum over pairs p in b of q[r, p] * keys[p, j]) * scales[b, j], in order, fused.
struct Int8Dots {
  const int32_t* q;  // pairs, [rows][size / 2]
  int rows;          // 1 .. kMaxAttentionRows
  const int32_t* keys;
  const float* scales;
  int64_t size, block;
  float* y;      // [rows][kKeyBlock]
  Ahead* ahead;  // a beat for some pairs and the columns that are taken together
};

// y[r, d] = y[r, d] * earlier[r] + float32(sum over j of w[r, j, b] * values[j, d]) * now[r] *
// largest[b] / 32767 for the block b of d, where w = round_half_even(weights[r, j] * factors[b, j])
// and both factors come from `value_scales`.
struct Int8Add {
  const float* weights;  // [rows][kKeyBlock], at most 1
  int rows;              // 1 .. kMaxAttentionRows
  const int32_t* values;
  const float *factors, *largest;
  int64_t size, block, n;  // keys
  const float *earlier, *now;
  float* y;
  int64_t y_step;
  Ahead* ahead;  // a beat for some pairs of keys and the columns that are taken together
};

struct AttentionInt8Table {
  int rows, columns;  // the most that are best taken together
  int beat;           // pairs to a beat
  // Pairs of a row, q = round_half_even(x * (32767 / m)), of its largest magnitude m, and m /
  // 32767. The factor is NaN where an element is, or is infinite, and 0 where m is below 2^-100.
  float (*round_row)(const float* x, int64_t size, int32_t* pairs);
  void (*lay_keys)(const int8_t* rows, int64_t size, int64_t n, int32_t* pairs);
  void (*lay_values)(const int8_t* rows, int64_t size, int64_t n, int32_t* pairs);
  // Scales of n rows as float32, [blocks][kKeyBlock], zeros behind the rows.
  void (*lay_scales)(const uint16_t* scales, int64_t blocks, int64_t n, float* to);
  // Of the first n scales so laid out, their largest magnitude in each block, and 32767 times their
  // part of it. It is NaN where a scale is, or is infinite, beside factors of 0.
  void (*value_factors)(const float* scales, int64_t blocks, int64_t n, float* factors,
                        float* largest);
  void (*dots)(const Int8Dots& dots);
  void (*add)(const Int8Add& add);
};
EVOQ_ISA_TABLE(AttentionInt8Table)

}  // namespace evoq
