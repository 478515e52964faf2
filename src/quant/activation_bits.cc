#include "quant/activation_bits.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/activation.h"
#include "ops/roles.h"

namespace evoq {

LevelBounds LevelBoundsOf(DType dtype, int bits) {
  if (bits >= 8)
    return {static_cast<int32_t>(IntegerMin(dtype)), static_cast<int32_t>(IntegerMax(dtype))};
  return IsSigned(dtype) ? LevelBounds{-(1 << (bits - 1)), (1 << (bits - 1)) - 1}
                         : LevelBounds{0, (1 << bits) - 1};
}

QuantParams LevelParams(Range range, DType dtype, int bits, bool symmetric) {
  const double share = bits == 4 ? 0.65 : bits == 2 ? 0.4 : 1;
  range.min *= static_cast<float>(share);
  range.max *= static_cast<float>(share);
  return ActivationParams(range, LevelBoundsOf(dtype, bits), IsSigned(dtype), symmetric);
}

bool CanHoldLevels(const Node& node) {
  if (!IsLinear(node)) return false;
  const auto product = ProductActivationFromAttrs(node.attrs);
  if (!product || !product->slopes.empty()) return false;
  const ActivationKind kind = product->activation.kind;
  return kind == ActivationKind::kNone || kind == ActivationKind::kRelu ||
         kind == ActivationKind::kClip;
}

void HoldLevels(Attrs& attrs, const TensorType& y, int bits) {
  const LevelBounds bounds = LevelBoundsOf(y.dtype, bits);
  const float scale = y.quant->scales[0];
  const int32_t zero = y.quant->zero_points[0];
  // Exact: a scale has at most 12 significant bits.
  Activation clip = {.kind = ActivationKind::kClip,
                     .alpha = static_cast<float>(bounds.low - zero) * scale,
                     .beta = static_cast<float>(bounds.high - zero) * scale};
  const auto own = ActivationFromAttrs(attrs);
  EVOQ_CHECK(own.has_value(), "an activation that CanHoldLevels refuses");
  if (own->kind == ActivationKind::kRelu) clip.alpha = std::max(clip.alpha, 0.0f);
  if (own->kind == ActivationKind::kClip) {
    clip.alpha = std::clamp(own->alpha, clip.alpha, clip.beta);
    clip.beta = std::clamp(own->beta, clip.alpha, clip.beta);
  }
  ActivationToAttrs(clip, attrs);
}

}  // namespace evoq
