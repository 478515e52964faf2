#include "kernels/activation.h"

namespace evoq {
namespace {
struct Row {
  ActivationKind kind;
  const char* name;
};
constexpr Row kRows[] = {
    {ActivationKind::kNone, ""},           {ActivationKind::kRelu, "Relu"},       {ActivationKind::kClip, "Clip"},
    {ActivationKind::kLeakyRelu, "LeakyRelu"}, {ActivationKind::kHardSwish, "HardSwish"}, {ActivationKind::kSilu, "Silu"},
    {ActivationKind::kSigmoid, "Sigmoid"}, {ActivationKind::kTanh, "Tanh"},       {ActivationKind::kGelu, "Gelu"},
};
}  // namespace

const char* ActivationName(ActivationKind kind) {
  for (const Row& row : kRows) {
    if (row.kind == kind) return row.name;
  }
  return "?";
}

std::optional<ActivationKind> ActivationFromName(std::string_view name) {
  for (const Row& row : kRows) {
    if (name == row.name) return row.kind;
  }
  return std::nullopt;
}

Result<Activation> ActivationFromAttrs(const Attrs& attrs) {
  Activation activation;
  const std::string name = attrs.String("activation");
  const auto kind = ActivationFromName(name);
  if (!kind) return InvalidInput("attribute activation is '{}', expected Relu, Clip, LeakyRelu, ...", name);
  activation.kind = *kind;
  activation.alpha = attrs.Float("activation_alpha");
  activation.beta = attrs.Float("activation_beta");
  return activation;
}

void ActivationToAttrs(const Activation& activation, Attrs& attrs) {
  if (activation.kind == ActivationKind::kNone) return;
  attrs.Set("activation", ActivationName(activation.kind));
  if (activation.kind == ActivationKind::kClip || activation.kind == ActivationKind::kLeakyRelu)
    attrs.Set("activation_alpha", activation.alpha);
  if (activation.kind == ActivationKind::kClip) attrs.Set("activation_beta", activation.beta);
}

float Apply(const Activation& activation, float x) {
  switch (activation.kind) {
    case ActivationKind::kNone: return x;
    case ActivationKind::kRelu: return x > 0 ? x : 0;
    case ActivationKind::kClip: {
      const float low = x > activation.alpha ? x : activation.alpha;
      return low < activation.beta ? low : activation.beta;
    }
    case ActivationKind::kLeakyRelu: return x < 0 ? x * activation.alpha : x;
    case ActivationKind::kHardSwish: {
      const float gate = x / 6 + 0.5f;
      return x * (gate < 0 ? 0 : gate > 1 ? 1 : gate);
    }
    case ActivationKind::kSilu: return x / (1 + std::exp(-x));
    case ActivationKind::kSigmoid: return 1 / (1 + std::exp(-x));
    case ActivationKind::kTanh: return std::tanh(x);
    case ActivationKind::kGelu: return 0.5f * x * (1 + std::erf(x * 0.70710678118654752f));
  }
  return x;
}

}  // namespace evoq
