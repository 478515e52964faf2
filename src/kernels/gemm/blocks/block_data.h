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

// q[i] = round_half_even(x[i] * (127 / m)), m the largest magnitude, and the scale, m / 127. With m
// below kLeastBlockMagnitude: zeros and scale 0; with a NaN or an infinity: zeros and scale NaN.
EVOQ_ALWAYS_INLINE float QuantizeBlock(const float* x, int64_t count, int8_t* q) {
  constexpr uint32_t kInfinity = 0x7f800000;
  uint32_t bits = 0;  // magnitudes are ordered as their bits, NaNs last
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t magnitude = std::bit_cast<uint32_t>(x[i]) & 0x7fffffff;
    bits = magnitude > bits ? magnitude : bits;
  }
  const float largest = std::bit_cast<float>(bits);
  if (bits >= kInfinity || largest < kLeastBlockMagnitude) {
    for (int64_t i = 0; i < count; ++i) q[i] = 0;
    return bits >= kInfinity ? std::bit_cast<float>(kInfinity | 0x400000) : 0.0f;
  }
  const float inverse = 127.0f / largest;
  constexpr float kRound = 0x1.8p23f;  // what is added to it is rounded to an integer
  for (int64_t i = 0; i < count; ++i)
    q[i] = static_cast<int8_t>(std::bit_cast<int32_t>(x[i] * inverse + kRound) -
                               std::bit_cast<int32_t>(kRound));
  return largest / 127.0f;
}

}  // namespace evoq
