#include "kernels/activation.h"

#include <algorithm>

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
constexpr char kPRelu[] = "PRelu", kSlopes[] = "activation_slopes";
}  // namespace

const char* ActivationName(ActivationKind kind) {
  if (kind == ActivationKind::kPRelu) return kPRelu;
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
  if (name == kPRelu)
    return InvalidInput("attribute activation is PRelu, which only products of integers have");
  if (!kind)
    return InvalidInput("attribute activation is '{}', expected Relu, Clip, LeakyRelu, ...", name);
  activation.kind = *kind;
  activation.alpha = attrs.Float("activation_alpha");
  activation.beta = attrs.Float("activation_beta");
  return activation;
}

Result<ProductActivation> ProductActivationFromAttrs(const Attrs& attrs) {
  ProductActivation product;
  if (attrs.String("activation") != kPRelu) {
    EVOQ_ASSIGN(product.activation, ActivationFromAttrs(attrs));
    return product;
  }
  product.activation.kind = ActivationKind::kPRelu;
  product.slopes = attrs.Floats(kSlopes);
  const auto finite = [](float slope) { return std::isfinite(slope); };
  if (product.slopes.empty() || !std::ranges::all_of(product.slopes, finite))
    return InvalidInput("attribute {}: expected a finite slope for each channel", kSlopes);
  return product;
}

std::optional<std::string> ProductActivation::WhyNot(int64_t channels) const {
  if (slopes.empty() || static_cast<int64_t>(slopes.size()) == channels) return std::nullopt;
  return fmt::format("attribute {}: {} slopes of {} channels", kSlopes, slopes.size(), channels);
}

void ProductActivationToAttrs(const ProductActivation& product, Attrs& attrs) {
  ActivationToAttrs(product.activation, attrs);
  if (!product.slopes.empty()) attrs.Set(kSlopes, product.slopes);
}

void EraseActivation(Attrs& attrs) {
  for (const char* name : {"activation", "activation_alpha", "activation_beta", kSlopes})
    attrs.Erase(name);
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
