// How integer arithmetic is simulated while a model is trained (quantization-aware training): rows
// of train/gradient.h for operators of a domain of their own, which only graphs of
// train/quantized.h hold.
//
// Forward is the integer definition of kernels/requant.h, bit for bit: a quantized value v lies in
// memory as the float32 numbers q - zero, so that operators that move numbers are simulated by the
// rows that they have. Backward is of the real numbers (q - zero) scale, and rounding passes
// gradients on where it did not saturate (the straight-through estimator; Bengio, Leonard,
// Courville, "Estimating or Propagating Gradients Through Stochastic Neurons", 2013). With
// v = x / s, between the bounds l and h,
//   d q s / d s = round(v) - v inside, l where v < l, h where v > h
// (Esser et al., "Learned Step Size Quantization", 2020, equation 3), and with the factor
// g = 1 / sqrt(N h) of that paper, N the numbers that share the step. What clips at h is what PACT
// learns (Choi et al., 2018). Parameters are the logarithms of steps, t = log s, and their gradient
// g (dL/ds) / s: SGD moves s as the paper says, Adam moves it by a share of itself whatever its
// size (Jain et al., "Trained Quantization Thresholds", 2020).
#pragma once

#include <algorithm>
#include <cmath>
#include <string>

#include "train/gradient.h"

namespace evoq {

inline constexpr char kSimulationDomain[] = "evoq.train";

std::span<const GradientDef* const> AllSimulations();

// The step that a parameter stands for: exp(t) as a scale of int8 has it (ShortScale), so that the
// products of two are exact.
float StepOf(float log_step);

// The integers of a quantized value about its zero point, or of a weight: a prefix of a node's
// attributes.
struct StepBounds {
  float low = 0, high = 0;  // less the zero point
  int64_t zero = 0;

  static StepBounds Of(const Attrs& attrs, const std::string& prefix);
  void To(Attrs& attrs, const std::string& prefix) const;
  float most() const { return std::max(-low, high); }
};

// round_half_even of a number below 2^22, without a call: the sum's last bit is that of 1.
inline float RoundSmall(float v) {
  constexpr float kOnes = 0x1.8p23f;
  return (v + kOnes) - kOnes;
}

// d q s / d s, for v = x / s.
inline float StepTerm(float v, const StepBounds& bounds) {
  if (v < bounds.low) return bounds.low;
  return v > bounds.high ? bounds.high : RoundSmall(v) - v;
}

// The gradient of a step's parameter, from that of the step; `count` numbers share it.
inline float LogStepGradient(double of_step, float step, double count, float high) {
  return static_cast<float>(of_step / std::sqrt(count * std::max(1.0f, high)) / step);
}

}  // namespace evoq
