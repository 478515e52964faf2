// The exact meaning of integer arithmetic on quantized values: the scalar definition that the
// reference evaluator computes and every kernel equals bit for bit. One rounding to float32 per
// written operation; no fused multiply-add but Add's.
//
// Linear operators (Conv, ConvTranspose, MatMul; x and w quantized, w symmetric or not):
//   acc[c] = bias[c] + sum_k (x[k] - zero_x) * (w[k,c] - zero_w[c]), exact, int32
//   v      = float32(acc[c]) * m[c],  m[c] = float32(double(s_x) * double(s_w[c]) / double(s_y))
//   v      = v + float32(r - zero_r) * m_r,  m_r = float32(double(s_r) / double(s_y)),
//                                            where a residual r is fused
//   v      = activation(v): Relu max(v, 0); Clip with bounds float32(double(bound) / double(s_y));
//                           LeakyRelu v < 0 ? v * alpha : v; a NaN stays one
//   y      = saturate(round_half_even(v) + zero_y), zero_y where v is NaN
// With a float32 output: s_y is 1 and y = activation(v [+ residual]). A float32 residual counts as
// scale 1, zero point 0. An activation that is not piecewise linear takes v in real units (s_y = 1)
// and gives QuantizeValue(activation(v)). bias is int32 at scale s_x * s_w[c]; a float32 bias is
// not quantized arithmetic (quantize it first).
//
// Add of two quantized values: kernels/add_terms.h. It rounds as ONNX Runtime's QLinearAdd, where
// the output's zero point is inside of what is rounded.
// Mul of two quantized values:
//   v = float32((a - zero_a) * (b - zero_b)) * float32(double(s_a) * double(s_b) / double(s_y)),
//   then rounding as above.
// Softmax of 8-bit values, m = the largest x along the axis, d = m - x:
//   e[d] = ExpF(-float32(d) * s_x);  sum = the sum of the e[d] along the axis in the order of SumF,
//   with 64 partial sums in place of 16;
//   y = saturate(round_half_even(e[d] * float32(1 / (double(sum) * double(s_y)))) + zero_y).
// AveragePool, GlobalAveragePool, ReduceMean:
//   v = float32(sum (x - zero_x)) * float32(double(s_x) / (double(s_y) * count)).
// Everything else: dequantize (q - zero) * scale, compute in float32, quantize as ONNX
// QuantizeLinear (division by scale).
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/activation.h"

namespace evoq {

// float32(double(a) * double(b) / double(c)).
inline float LinearMultiplier(float scale_x, float scale_w, float scale_y) {
  return static_cast<float>(static_cast<double>(scale_x) * static_cast<double>(scale_w) /
                            static_cast<double>(scale_y));
}
inline float ScaleRatio(float scale, float scale_y) {
  return static_cast<float>(static_cast<double>(scale) / static_cast<double>(scale_y));
}

// Softmax's float32(1 / (double(sum) * double(scale_y))), at most 3e38; sum >= 1.
inline __attribute__((always_inline)) float SoftmaxMultiplier(float sum, float scale_y) {
  return static_cast<float>(
      __builtin_fmin(1.0 / (static_cast<double>(sum) * static_cast<double>(scale_y)), 3e38));
}

// A piecewise-linear activation on values measured in units of the output's scale.
inline Activation ScaledActivation(Activation activation, float scale_y) {
  if (activation.kind == ActivationKind::kClip) {
    activation.alpha = ScaleRatio(activation.alpha, scale_y);
    activation.beta = ScaleRatio(activation.beta, scale_y);
  }
  return activation;
}

// saturate(round_half_even(v) + zero) into [low, high]; v must not be NaN. Saturates before
// converting, so that any finite or infinite v is safe.
inline int32_t RoundToInteger(float v, int32_t zero, int32_t low, int32_t high) {
  const float bounded_low = static_cast<float>(low - zero),
              bounded_high = static_cast<float>(high - zero);
  v = std::nearbyint(v);
  v = v > bounded_low ? v : bounded_low;
  v = v < bounded_high ? v : bounded_high;
  return static_cast<int32_t>(v) + zero;
}

// The same, where a NaN becomes the zero point.
inline int32_t RoundOrZeroPoint(float v, int32_t zero, int32_t low, int32_t high) {
  return v == v ? RoundToInteger(v, zero, low, high) : zero;
}

// ONNX QuantizeLinear of one float32 value; NaN becomes the zero point.
inline int32_t QuantizeValue(float x, float scale, int32_t zero, int32_t low, int32_t high) {
  return RoundOrZeroPoint(x / scale, zero, low, high);
}

inline float DequantizeValue(int32_t q, float scale, int32_t zero) {
  return static_cast<float>(q - zero) * scale;
}

}  // namespace evoq
