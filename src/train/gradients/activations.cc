// Functions of one value: dx = dy f'(x).
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "kernels/math/math.h"
#include "train/gradients/one_value.h"

namespace evoq {
namespace {

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
  return OfKind(args, {.kind = UnaryKind::kSigmoid}, [](float, float y) { return y * (1 - y); });
}

Result<BoundGradient> BindTanh(const GradientArgs& args) {
  return OfKind(args, {.kind = UnaryKind::kTanh}, [](float, float y) { return 1 - y * y; });
}

void Apply(const GradientRun& run, UnaryKind kind, float* x, int64_t n) {
  UnaryTableFor(run.isa).apply({.kind = kind}, x, x, n);
}

// Hendrycks and Gimpel, "Gaussian Error Linear Units" (2016): x P(x) with the normal distribution's
// P, so P(x) + x p(x) with its density p.
void GeluSlopes(const GradientRun& run, const float* x, const float*, int64_t n, float* out) {
  constexpr float kHalfRoot = static_cast<float>(std::numbers::sqrt2) / 2;
  float *const erf = out + kSlopeBlock, *const density = erf + kSlopeBlock;
  for (int64_t i = 0; i < n; ++i) erf[i] = x[i] * kHalfRoot;
  for (int64_t i = 0; i < n; ++i) density[i] = -0.5f * x[i] * x[i];
  Apply(run, UnaryKind::kErf, erf, n);
  Apply(run, UnaryKind::kExp, density, n);
  for (int64_t i = 0; i < n; ++i) {
    const float p = density[i] * static_cast<float>(std::numbers::inv_sqrtpi) * kHalfRoot;
    out[i] = 0.5f * (1 + erf[i]) + x[i] * p;
  }
}

// Of its approximation by tanh(u), u = sqrt(2 / pi) (x + 0.044715 x^3).
void GeluTanhSlopes(const GradientRun& run, const float* x, const float*, int64_t n, float* out) {
  constexpr float kRoot = 0.7978845608f, kCubic = 0.044715f;
  float* const tanh = out + kSlopeBlock;
  for (int64_t i = 0; i < n; ++i) tanh[i] = kRoot * (x[i] + kCubic * x[i] * x[i] * x[i]);
  Apply(run, UnaryKind::kTanh, tanh, n);
  for (int64_t i = 0; i < n; ++i) {
    const float t = tanh[i];
    out[i] = 0.5f * (1 + t) + 0.5f * x[i] * (1 - t * t) * kRoot * (1 + 3 * kCubic * x[i] * x[i]);
  }
}

Result<BoundGradient> BindGelu(const GradientArgs& args) {
  if (args.node.attrs.String("approximate", "none") == "tanh")
    return InBlocks(args, {.kind = UnaryKind::kGelu, .alpha = 1}, GeluTanhSlopes);
  return InBlocks(args, {.kind = UnaryKind::kGelu}, GeluSlopes);
}

// Clevert, Unterthiner, Hochreiter, "Fast and Accurate Deep Network Learning by Exponential Linear
// Units" (2016).
Result<BoundGradient> BindElu(const GradientArgs& args) {
  const float alpha = args.node.attrs.Float("alpha", 1);
  return OneValue(
      args, [alpha](float x) { return x >= 0 ? x : alpha * (ExpF(x) - 1); },
      [alpha](float x, float y) { return x >= 0 ? 1.0f : y + alpha; });
}

// Barron, "Continuously Differentiable Exponential Linear Units" (2017).
Result<BoundGradient> BindCelu(const GradientArgs& args) {
  const float alpha = args.node.attrs.Float("alpha", 1);
  return OneValue(
      args, [alpha](float x) { return x >= 0 ? x : alpha * (ExpF(x / alpha) - 1); },
      [alpha](float x, float y) { return x >= 0 ? 1.0f : y / alpha + 1; });
}

// Klambauer et al., "Self-Normalizing Neural Networks" (2017).
Result<BoundGradient> BindSelu(const GradientArgs& args) {
  const float alpha = args.node.attrs.Float("alpha", 1.67326319217681884765625f);
  const float gamma = args.node.attrs.Float("gamma", 1.05070102214813232421875f);
  return OneValue(
      args, [alpha, gamma](float x) { return gamma * (x >= 0 ? x : alpha * (ExpF(x) - 1)); },
      [alpha, gamma](float x, float y) { return x >= 0 ? gamma : y + gamma * alpha; });
}

Result<BoundGradient> BindHardSigmoid(const GradientArgs& args) {
  const float alpha = args.node.attrs.Float("alpha", 0.2f);
  const float beta = args.node.attrs.Float("beta", 0.5f);
  return OneValue(
      args, [alpha, beta](float x) { return HardSigmoidF(x, alpha, beta); },
      [alpha](float, float y) { return y > 0 && y < 1 ? alpha : 0.0f; });
}

// x clamp(x / 6 + 1 / 2, 0, 1).
Result<BoundGradient> BindHardSwish(const GradientArgs& args) {
  return OneValue(args, HardSwishF, [](float x, float) {
    return x <= -3 ? 0 : x >= 3 ? 1 : x / 3 + 0.5f;
  });
}

// Misra, "Mish" (2020): x tanh(softplus(x)).
Result<BoundGradient> BindMish(const GradientArgs& args) {
  return OneValue(
      args, [](float x) { return x * TanhF(SoftplusF(x)); },
      [](float x, float) {
        const float t = TanhF(SoftplusF(x));
        return t + x * (1 - t * t) * SigmoidF(x);
      });
}

Result<BoundGradient> BindSoftplus(const GradientArgs& args) {
  return InBlocks(args, {.kind = UnaryKind::kSoftplus},
                  [](const GradientRun& run, const float* x, const float*, int64_t n, float* out) {
                    UnaryTableFor(run.isa).apply({.kind = UnaryKind::kSigmoid}, x, out, n);
                  });
}

// Ramachandran, Zoph, Le, "Searching for Activation Functions" (2017): x sigmoid(alpha x).
Result<BoundGradient> BindSwish(const GradientArgs& args) {
  const float alpha = args.node.attrs.Float("alpha", 1);
  const int64_t n = *args.y[0].shape.elements();
  const auto slopes = [alpha](const GradientRun& run, const float* x, const float* y, int64_t count,
                              float* out) {
    for (int64_t i = 0; i < count; ++i) out[i] = alpha * x[i];
    Apply(run, UnaryKind::kSigmoid, out, count);
    for (int64_t i = 0; i < count; ++i) out[i] = out[i] + alpha * y[i] * (1 - out[i]);
  };
  BoundGradient bound = InBlocks(args, {}, slopes);
  bound.forward = [alpha, n](const GradientRun& run) {
    for (int64_t i = 0; i < n; ++i) run.y[0][i] = alpha * run.x[0][i];
    Apply(run, UnaryKind::kSigmoid, run.y[0], n);
    for (int64_t i = 0; i < n; ++i) run.y[0][i] = run.x[0][i] * run.y[0][i];
  };
  return bound;
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

extern const GradientDef kGradientCelu, kGradientClip, kGradientElu, kGradientGelu,
    kGradientHardSigmoid, kGradientHardSwish, kGradientLeakyRelu, kGradientMish, kGradientRelu,
    kGradientSelu, kGradientSigmoid, kGradientSilu, kGradientSoftplus, kGradientSwish,
    kGradientTanh;
const GradientDef kGradientCelu = {.op = "Celu", .bind = BindCelu};
const GradientDef kGradientClip = {.op = "Clip", .bind = BindClip};
const GradientDef kGradientElu = {.op = "Elu", .bind = BindElu};
const GradientDef kGradientGelu = {.op = "Gelu", .bind = BindGelu};
const GradientDef kGradientHardSigmoid = {.op = "HardSigmoid", .bind = BindHardSigmoid};
const GradientDef kGradientHardSwish = {.op = "HardSwish", .bind = BindHardSwish};
const GradientDef kGradientLeakyRelu = {.op = "LeakyRelu", .bind = BindLeakyRelu};
const GradientDef kGradientMish = {.op = "Mish", .bind = BindMish};
const GradientDef kGradientRelu = {.op = "Relu", .bind = BindRelu};
const GradientDef kGradientSelu = {.op = "Selu", .bind = BindSelu};
const GradientDef kGradientSigmoid = {.op = "Sigmoid", .bind = BindSigmoid};
// Swish without its attribute.
const GradientDef kGradientSilu = {.op = "Silu", .domain = "evoq", .bind = BindSwish};
const GradientDef kGradientSoftplus = {.op = "Softplus", .bind = BindSoftplus};
const GradientDef kGradientSwish = {.op = "Swish", .bind = BindSwish};
const GradientDef kGradientTanh = {.op = "Tanh", .bind = BindTanh};

}  // namespace evoq
