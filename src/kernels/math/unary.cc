#include "kernels/math/unary.h"

#include "kernels/math/unary.inl.h"

namespace evoq {
namespace {
constexpr const char* kNames[] = {
#define EVOQ_UNARY(op, definition) #op,
    EVOQ_UNARY_LIST
#undef EVOQ_UNARY
};
}  // namespace

std::optional<UnaryKind> UnaryKindFromOp(std::string_view op) {
  for (size_t i = 0; i < std::size(kNames); ++i) {
    if (op == kNames[i]) return static_cast<UnaryKind>(i);
  }
  return std::nullopt;
}

const char* UnaryOpName(UnaryKind kind) { return kNames[static_cast<size_t>(kind)]; }

Unary UnaryFromAttrs(UnaryKind kind, const Attrs& attrs) {
  switch (kind) {
    case UnaryKind::kCelu:
    case UnaryKind::kElu:
    case UnaryKind::kThresholdedRelu: return {kind, attrs.Float("alpha", 1.0f), 0};
    case UnaryKind::kHardSigmoid:
      return {kind, attrs.Float("alpha", 0.2f), attrs.Float("beta", 0.5f)};
    case UnaryKind::kLeakyRelu: return {kind, attrs.Float("alpha", 0.01f), 0};
    case UnaryKind::kSelu:
      return {kind, attrs.Float("alpha", 1.67326319217681884765625f),
              attrs.Float("gamma", 1.05070102214813232421875f)};
    case UnaryKind::kShrink: return {kind, attrs.Float("bias", 0.0f), attrs.Float("lambd", 0.5f)};
    case UnaryKind::kGelu:
      return {kind, attrs.String("approximate", "none") == "tanh" ? 1.0f : 0.0f, 0};
    case UnaryKind::kClip: return {kind, -kInfinity, kInfinity};
    default: return {kind, 0, 0};
  }
}

float Apply(const Unary& unary, float x) {
  switch (unary.kind) {
#define EVOQ_UNARY(op, definition) \
  case UnaryKind::k##op: return UnaryFn<UnaryKind::k##op>::Compute(x, unary.alpha, unary.beta);
    EVOQ_UNARY_LIST
#undef EVOQ_UNARY
  }
  return x;
}

std::optional<Unary> UnaryFromActivation(const Activation& activation) {
  switch (activation.kind) {
    case ActivationKind::kNone:
    case ActivationKind::kPRelu: return std::nullopt;  // no function of one value alone
    case ActivationKind::kRelu: return Unary{UnaryKind::kRelu, 0, 0};
    case ActivationKind::kClip: return Unary{UnaryKind::kClip, activation.alpha, activation.beta};
    case ActivationKind::kLeakyRelu: return Unary{UnaryKind::kLeakyRelu, activation.alpha, 0};
    case ActivationKind::kHardSwish: return Unary{UnaryKind::kHardSwish, 0, 0};
    case ActivationKind::kSilu: return Unary{UnaryKind::kSilu, 0, 0};
    case ActivationKind::kSigmoid: return Unary{UnaryKind::kSigmoid, 0, 0};
    case ActivationKind::kTanh: return Unary{UnaryKind::kTanh, 0, 0};
    case ActivationKind::kGelu: return Unary{UnaryKind::kGelu, 0, 0};
  }
  return std::nullopt;
}

}  // namespace evoq
