#include "kernels/activation.h"

#include "kernels/math/unary.h"

namespace evoq {
namespace {
struct Row {
  ActivationKind kind;
  const char* name;
};
constexpr Row kRows[] = {
    {ActivationKind::kNone, ""},
    {ActivationKind::kRelu, "Relu"},
    {ActivationKind::kClip, "Clip"},
    {ActivationKind::kLeakyRelu, "LeakyRelu"},
    {ActivationKind::kHardSwish, "HardSwish"},
    {ActivationKind::kSilu, "Silu"},
    {ActivationKind::kSigmoid, "Sigmoid"},
    {ActivationKind::kTanh, "Tanh"},
    {ActivationKind::kGelu, "Gelu"},
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
  if (!kind)
    return InvalidInput("attribute activation is '{}', expected Relu, Clip, LeakyRelu, ...", name);
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
  const std::optional<Unary> unary = UnaryFromActivation(activation);
  return unary ? Apply(*unary, x) : x;
}

}  // namespace evoq
