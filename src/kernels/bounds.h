// A piecewise-linear activation and the saturation of the output type, folded into what an epilogue
// computes:
//   v = leaky && v < 0 ? v * slope : v;   v = low > v ? low : v;   v = high < v ? high : v;
// so that a NaN stays one (x86's max and min give their second operand where one is NaN: v stands
// second); then, for an integer output, q = int32(round_half_even(v)) + zero. Equal to
// kernels/requant.h bit for bit: the saturation bounds are integers, so clamping before rounding is
// the same as after, and clamps compose.
#pragma once

#include <algorithm>

#include "kernels/requant.h"

namespace evoq {

struct OutputBounds {
  float low = -__builtin_inff();
  float high = __builtin_inff();
  float slope = 1;
  bool leaky = false;
  int32_t zero = 0;

  // Into float32.
  static OutputBounds Real(const Activation& activation) {
    OutputBounds bounds;
    if (activation.kind == ActivationKind::kRelu) bounds.low = 0;
    if (activation.kind == ActivationKind::kClip)
      bounds.low = activation.alpha, bounds.high = activation.beta;
    if (activation.kind == ActivationKind::kLeakyRelu)
      bounds.slope = activation.alpha, bounds.leaky = true;
    return bounds;
  }
  // Into integers [type_low, type_high] with this scale and zero point.
  static OutputBounds Integer(const Activation& activation, float scale, int32_t zero,
                              int32_t type_low, int32_t type_high) {
    OutputBounds bounds = Real(ScaledActivation(activation, scale));
    const float low = static_cast<float>(type_low - zero),
                high = static_cast<float>(type_high - zero);
    bounds.low = std::min(std::max(bounds.low, low), high);
    bounds.high = std::min(std::max(bounds.high, low), high);
    bounds.zero = zero;
    return bounds;
  }
};

}  // namespace evoq
