// Arithmetic of one value.
#include <cmath>
#include <numbers>

#include "train/gradients/one_value.h"

namespace evoq {
namespace {

// The derivative at 0 is 0, as that of other tools is.
Result<BoundGradient> BindAbs(const GradientArgs& args) {
  return OneValue(
      args, [](float x) { return std::fabs(x); },
      [](float x, float) { return x > 0   ? 1.0f
                                  : x < 0 ? -1.0f
                                          : 0.0f; });
}

// erf'(x) = 2 / sqrt(pi) e^(-x^2).
Result<BoundGradient> BindErf(const GradientArgs& args) {
  return InBlocks(args, {.kind = UnaryKind::kErf},
                  [](const GradientRun& run, const float* x, const float*, int64_t n, float* out) {
                    for (int64_t i = 0; i < n; ++i) out[i] = -x[i] * x[i];
                    UnaryTableFor(run.isa).apply({.kind = UnaryKind::kExp}, out, out, n);
                    for (int64_t i = 0; i < n; ++i)
                      out[i] *= 2 * static_cast<float>(std::numbers::inv_sqrtpi);
                  });
}

Result<BoundGradient> BindCos(const GradientArgs& args) {
  return OneValue(
      args, [](float x) { return std::cos(x); }, [](float x, float) { return -std::sin(x); });
}

Result<BoundGradient> BindExp(const GradientArgs& args) {
  return OfKind(args, {.kind = UnaryKind::kExp}, [](float, float y) { return y; });
}

Result<BoundGradient> BindLog(const GradientArgs& args) {
  return OfKind(args, {.kind = UnaryKind::kLog}, [](float x, float) { return 1 / x; });
}

Result<BoundGradient> BindNeg(const GradientArgs& args) {
  return OneValue(args, [](float x) { return -x; }, [](float, float) { return -1.0f; });
}

Result<BoundGradient> BindReciprocal(const GradientArgs& args) {
  return OneValue(args, [](float x) { return 1 / x; }, [](float, float y) { return -y * y; });
}

Result<BoundGradient> BindSin(const GradientArgs& args) {
  return OneValue(
      args, [](float x) { return std::sin(x); }, [](float x, float) { return std::cos(x); });
}

// x / (1 + |x|), whose derivative is the square of 1 - |y|.
Result<BoundGradient> BindSoftsign(const GradientArgs& args) {
  return OneValue(
      args, [](float x) { return x / (1 + std::fabs(x)); },
      [](float, float y) { return (1 - std::fabs(y)) * (1 - std::fabs(y)); });
}

Result<BoundGradient> BindSqrt(const GradientArgs& args) {
  return OneValue(
      args, [](float x) { return std::sqrt(x); }, [](float, float y) { return 0.5f / y; });
}

}  // namespace

extern const GradientDef kGradientAbs, kGradientCos, kGradientErf, kGradientExp, kGradientLog,
    kGradientNeg, kGradientReciprocal, kGradientSin, kGradientSoftsign, kGradientSqrt;
const GradientDef kGradientAbs = {.op = "Abs", .bind = BindAbs};
const GradientDef kGradientCos = {.op = "Cos", .bind = BindCos};
const GradientDef kGradientErf = {.op = "Erf", .bind = BindErf};
const GradientDef kGradientExp = {.op = "Exp", .bind = BindExp};
const GradientDef kGradientLog = {.op = "Log", .bind = BindLog};
const GradientDef kGradientNeg = {.op = "Neg", .bind = BindNeg};
const GradientDef kGradientReciprocal = {.op = "Reciprocal", .bind = BindReciprocal};
const GradientDef kGradientSin = {.op = "Sin", .bind = BindSin};
const GradientDef kGradientSoftsign = {.op = "Softsign", .bind = BindSoftsign};
const GradientDef kGradientSqrt = {.op = "Sqrt", .bind = BindSqrt};

}  // namespace evoq
