// Functions of one value: dx = dy f'(x).
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "kernels/math/math.h"
#include "train/gradient.h"

namespace evoq {
namespace {

// f(x) is y; slope(x, y) its derivative there.
template <typename F, typename Slope>
BoundGradient OneValue(const GradientArgs& args, const F& f, const Slope& slope) {
  const int64_t n = *args.y[0].shape.elements();
  return BoundGradient{.forward =
                           [n, f](const GradientRun& run) {
                             const float* const x = run.x[0];
                             float* const __restrict y = run.y[0];
                             for (int64_t i = 0; i < n; ++i) y[i] = f(x[i]);
                           },
                       .backward =
                           [n, slope](const GradientRun& run) {
                             const float *const x = run.x[0], *const y = run.y[0];
                             const float* const dy = run.dy[0];
                             float* const __restrict dx = run.dx[0];
                             for (int64_t i = 0; i < n; ++i) dx[i] += dy[i] * slope(x[i], y[i]);
                           }};
}

// The derivative at 0 is 0, as that of other tools is.
Result<BoundGradient> BindRelu(const GradientArgs& args) {
  return OneValue(
      args, [](float x) { return x > 0 ? x : 0; },
      [](float x, float) { return x > 0 ? 1.0f : 0.0f; });
}

Result<BoundGradient> BindLeakyRelu(const GradientArgs& args) {
  const float alpha = args.node.attrs.Float("alpha", 0.01f);
  return OneValue(
      args, [alpha](float x) { return x >= 0 ? x : alpha * x; },
      [alpha](float x, float) { return x > 0 ? 1.0f : alpha; });
}

Result<BoundGradient> BindSigmoid(const GradientArgs& args) {
  return OneValue(args, SigmoidF, [](float, float y) { return y * (1 - y); });
}

Result<BoundGradient> BindTanh(const GradientArgs& args) {
  return OneValue(args, TanhF, [](float, float y) { return 1 - y * y; });
}

// Hendrycks and Gimpel, "Gaussian Error Linear Units" (2016): x P(x) with the normal distribution's
// P, so P(x) + x p(x) with its density p.
float GeluSlope(float x, float) {
  const float density = ExpF(-0.5f * x * x) * static_cast<float>(std::numbers::inv_sqrtpi) *
                        (static_cast<float>(std::numbers::sqrt2) / 2);
  return 0.5f * (1 + ErfF(x * (static_cast<float>(std::numbers::sqrt2) / 2))) + x * density;
}
// Of its approximation by tanh(u), u = sqrt(2 / pi) (x + 0.044715 x^3).
float GeluTanhSlope(float x, float) {
  constexpr float kRoot = 0.7978845608f, kCubic = 0.044715f;
  const float t = TanhF(kRoot * (x + kCubic * x * x * x));
  return 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * kRoot * (1 + 3 * kCubic * x * x);
}
Result<BoundGradient> BindGelu(const GradientArgs& args) {
  if (args.node.attrs.String("approximate", "none") == "tanh")
    return OneValue(args, GeluTanhF, GeluTanhSlope);
  return OneValue(args, GeluF, GeluSlope);
}

Result<BoundGradient> BindClip(const GradientArgs& args) {
  float bounds[2] = {-std::numeric_limits<float>::infinity(),
                     std::numeric_limits<float>::infinity()};
  for (size_t i = 1; i < args.x.size(); ++i) {
    if (args.x[i].dtype == DType::kUndefined) continue;
    if (args.constants[i] == nullptr) return Unsupported("bounds that are no constants");
    bounds[i - 1] = *args.constants[i]->data<float>();
  }
  const auto [low, high] = bounds;
  return OneValue(
      args, [low, high](float x) { return std::min(std::max(x, low), high); },
      [low, high](float x, float) { return x > low && x < high ? 1.0f : 0.0f; });
}

}  // namespace

extern const GradientDef kGradientClip, kGradientGelu, kGradientLeakyRelu, kGradientRelu,
    kGradientSigmoid, kGradientTanh;
const GradientDef kGradientClip = {.op = "Clip", .bind = BindClip};
const GradientDef kGradientGelu = {.op = "Gelu", .bind = BindGelu};
const GradientDef kGradientLeakyRelu = {.op = "LeakyRelu", .bind = BindLeakyRelu};
const GradientDef kGradientRelu = {.op = "Relu", .bind = BindRelu};
const GradientDef kGradientSigmoid = {.op = "Sigmoid", .bind = BindSigmoid};
const GradientDef kGradientTanh = {.op = "Tanh", .bind = BindTanh};

}  // namespace evoq
