// The exact meaning of Add of two quantized values, as ONNX Runtime's QLinearAdd has it on
// processors with AVX2. Integers and zero points of a signed type are raised by half its range
// first, which changes no value. An fma rounds once.
//
//   r_a = ScaleRatio(s_a, s_y), r_b likewise;  c = float32(zero_y) - fma(r_a, zero_a, r_b * zero_b)
//   v   = fma(a, r_a, fma(b, r_b, c))
//   v   = activation about zero_y     Relu: max(v, zero_y); Clip: bounds ScaleRatio(bound, s_y) +
//   zero_y;
//                                     LeakyRelu: v < zero_y ? (v - zero_y) * alpha + zero_y : v
//   y   = saturate(round_half_even(v))
#pragma once

#include <algorithm>

#include "kernels/bounds.h"

namespace evoq {

struct AddTerms {
  float ratio_a, ratio_b, constant;

  AddTerms(float scale_a, int32_t zero_a, float scale_b, int32_t zero_b, float scale_y,
           int32_t zero_y)
      : ratio_a(ScaleRatio(scale_a, scale_y)),
        ratio_b(ScaleRatio(scale_b, scale_y)),
        constant(static_cast<float>(zero_y) -
                 __builtin_fmaf(ratio_a, static_cast<float>(zero_a),
                                ratio_b * static_cast<float>(zero_b))) {}
  // v before the activation.
  float Sum(int32_t a, int32_t b) const {
    return __builtin_fmaf(static_cast<float>(a), ratio_a,
                          __builtin_fmaf(static_cast<float>(b), ratio_b, constant));
  }
};

// Activation and saturation of that v: its bounds hold the zero point, `zero` is 0, a leaky slope
// is about zero_y.
inline OutputBounds AddBounds(const Activation& activation, float scale_y, int32_t zero_y,
                              int32_t type_low, int32_t type_high) {
  OutputBounds bounds = OutputBounds::Real(ScaledActivation(activation, scale_y));
  const float low = static_cast<float>(type_low), high = static_cast<float>(type_high),
              middle = static_cast<float>(zero_y);
  bounds.low = std::min(std::max(bounds.low + middle, low), high);
  bounds.high = std::min(std::max(bounds.high + middle, low), high);
  return bounds;
}

}  // namespace evoq
