// MatMul's attribute data_block: its data, float32, is rounded to int8 at run time, each row in
// blocks along K with a scale each, and multiplied with integers. "Data" is input 0.
//
// With D = data_block > 0, x the row m of the data and block d its elements [d D, (d + 1) D):
//   q[m, k], s[m, d] = QuantizeBlock(block d of x)                              (below)
// and, where the weights are q_w with scale s_w and zero point z_w for each block (or one for all
// of K) along K: cut K at the multiples of D and of the weights' block, into pieces p; then
//   sum[p]  = sum_{k in p} q[m, k] * (q_w[k, n] - z_w[p, n])                    exact, int32
//   t[d]    = sum over the pieces p of block d, in order, of float32(sum[p]) * s_w[p, n]
//   v       = bias[n] + sum over the blocks d, in order, of s[m, d] * t[d]
//   y[m, n] = activation(v + residual[m, n])
// q_w are integers; of float4e2m1 weights they are twice the numbers, and s_w half the scale.
// All in float32: t starts as the first product, every other term is one fused multiply-add. The
// result is the same on every machine, whatever the rows beside it.
// Weights that are not quantized multiply q[m, k] * s[m, d] in float32.
#pragma once

#include <bit>
#include <cstdint>

#include "kernels/isa_table.h"

namespace evoq {

inline constexpr const char* kDataBlock = "data_block";

// Largest magnitudes below this count as 0.
inline constexpr float kLeastBlockMagnitude = 0x1p-100f;

// What the elements of a block are multiplied by to become integers, and the scale: 127 / m and m /
// 127 of the largest magnitude m, of which these are the bits (magnitudes are ordered as their
// bits, NaNs last). 0 and 0 below kLeastBlockMagnitude; 0 and NaN of a NaN or an infinity.
struct BlockScale {
  float inverse, scale;
};
EVOQ_ALWAYS_INLINE BlockScale BlockScaleOf(uint32_t magnitude) {
  constexpr uint32_t kInfinity = 0x7f800000;
  if (magnitude >= kInfinity) return {0, std::bit_cast<float>(kInfinity | 0x400000)};
  const float largest = std::bit_cast<float>(magnitude);
  if (largest < kLeastBlockMagnitude) return {0, 0};
  return {127.0f / largest, largest / 127.0f};
}

// What is added to a number below 2^22 is rounded to an integer, which are the bits less its own.
inline constexpr float kBlockRound = 0x1.8p23f;

// q[i] = round_half_even(x[i] * inverse), or zeros where that is 0; gives the scale.
EVOQ_ALWAYS_INLINE float QuantizeBlock(const float* x, int64_t count, int8_t* q) {
  uint32_t bits = 0;
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t magnitude = std::bit_cast<uint32_t>(x[i]) & 0x7fffffff;
    bits = magnitude > bits ? magnitude : bits;
  }
  const BlockScale scale = BlockScaleOf(bits);
  for (int64_t i = 0; i < count; ++i) {
    const int32_t rounded = std::bit_cast<int32_t>(x[i] * scale.inverse + kBlockRound);
    q[i] = scale.inverse == 0 ? int8_t{0}
                              : static_cast<int8_t>(rounded - std::bit_cast<int32_t>(kBlockRound));
  }
  return scale.scale;
}

}  // namespace evoq
