// The activations that linear operators fuse, and their scalar definition.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/attrs.h"

namespace evoq {

enum class ActivationKind {
  kNone,
  kRelu,
  kClip,
  kLeakyRelu,
  kHardSwish,
  kSilu,
  kSigmoid,
  kTanh,
  kGelu,
  kPRelu
};

// On a node: attributes `activation` (the name below), `activation_alpha`, `activation_beta`.
//   Relu max(x, 0) | Clip min(max(x, alpha), beta) | LeakyRelu x < 0 ? alpha x : x | HardSwish x *
//   clamp(x / 6 + 0.5, 0, 1) Silu x / (1 + exp(-x)) | Sigmoid 1 / (1 + exp(-x)) | Tanh | Gelu x / 2
//   * (1 + erf(x / sqrt 2))
struct Activation {
  ActivationKind kind = ActivationKind::kNone;
  float alpha = 0;
  float beta = 0;
};

// Relu, Clip, LeakyRelu and PRelu: computed on scaled values in the epilogue of an integer kernel.
// The others are tables.
inline bool IsPiecewiseLinear(ActivationKind kind) {
  return kind == ActivationKind::kNone || kind == ActivationKind::kRelu ||
         kind == ActivationKind::kClip || kind == ActivationKind::kLeakyRelu ||
         kind == ActivationKind::kPRelu;
}

const char* ActivationName(ActivationKind kind);  // "" for kNone
std::optional<ActivationKind> ActivationFromName(std::string_view name);

// Errors: kInvalidInput for an unknown name, and for PRelu, which ProductActivationFromAttrs reads.
Result<Activation> ActivationFromAttrs(const Attrs& attrs);
void ActivationToAttrs(const Activation& activation, Attrs& attrs);

// What Conv and MatMul of integers may have besides, and nothing else: PRelu, x < 0 ? slope x : x
// with a slope for each output channel (attribute `activation_slopes`).
struct ProductActivation {
  Activation activation;
  std::vector<float> slopes;  // of PRelu; empty without

  // Why it is none of a product of so many channels.
  std::optional<std::string> WhyNot(int64_t channels) const;
};
// Errors: kInvalidInput for an unknown name, and for PRelu without finite slopes.
Result<ProductActivation> ProductActivationFromAttrs(const Attrs& attrs);
void ProductActivationToAttrs(const ProductActivation& product, Attrs& attrs);
void EraseActivation(Attrs& attrs);

// The definition, in float32, one rounding per written operation: the functions of
// kernels/math/math.h.
float Apply(const Activation& activation, float x);

}  // namespace evoq
