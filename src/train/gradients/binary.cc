// Add, Sub, Mul, Div, Pow and PRelu with ONNX's broadcasting: an operand's gradient is summed over
// the axes along which it was repeated.
#include <cmath>
#include <type_traits>

#include "kernels/math/math.h"
#include "train/gradients/broadcast.h"

namespace evoq {
namespace {

// dx [n], or [1] with step 0, becomes the sum with term(j), j < n, in order.
template <int64_t kStep, typename Term>
void AddLine(float* dx, int64_t n, const Term& term) {
  if constexpr (kStep != 0) {
    for (int64_t j = 0; j < n; ++j) dx[j] += term(j);
  } else {
    double sum = 0;
    for (int64_t j = 0; j < n; ++j) sum += term(j);
    *dx += static_cast<float>(sum);
  }
}

// Calls body(a's step, b's step) with constants.
template <typename Body>
void WithSteps(const Broadcast& s, const Body& body) {
  using Zero = std::integral_constant<int64_t, 0>;
  using One = std::integral_constant<int64_t, 1>;
  if (s.a_step != 0 && s.b_step != 0) return body(One(), One());
  if (s.a_step != 0) return body(One(), Zero());
  if (s.b_step != 0) return body(Zero(), One());
  body(Zero(), Zero());
}

// y = f(a, b); the derivatives are slope_a(a, b) and slope_b(a, b).
template <typename F, typename SlopeA, typename SlopeB>
BoundGradient TwoValues(const GradientArgs& args, const F& f, const SlopeA& slope_a,
                        const SlopeB& slope_b) {
  const Broadcast s = BroadcastOf(args);
  const auto forward = [s, f](const GradientRun& run) {
    WithSteps(s, [&](auto a_step, auto b_step) {
      s.ForEachLine([&](int64_t at, int64_t a, int64_t b) {
        const float *pa = run.x[0] + a, *pb = run.x[1] + b;
        float* const y = run.y[0] + at;
        for (int64_t j = 0; j < s.length; ++j) y[j] = f(pa[j * a_step], pb[j * b_step]);
      });
    });
  };
  const auto backward = [s, slope_a, slope_b](const GradientRun& run) {
    WithSteps(s, [&](auto a_step, auto b_step) {
      s.ForEachLine([&](int64_t y, int64_t a, int64_t b) {
        const float *dy = run.dy[0] + y, *pa = run.x[0] + a, *pb = run.x[1] + b;
        const auto by_a = [&](int64_t j) {
          return dy[j] * slope_a(pa[j * a_step], pb[j * b_step]);
        };
        const auto by_b = [&](int64_t j) {
          return dy[j] * slope_b(pa[j * a_step], pb[j * b_step]);
        };
        if (run.dx[0] != nullptr) AddLine<decltype(a_step)::value>(run.dx[0] + a, s.length, by_a);
        if (run.dx[1] != nullptr) AddLine<decltype(b_step)::value>(run.dx[1] + b, s.length, by_b);
      });
    });
  };
  return BoundGradient{.forward = forward, .backward = backward};
}

// No function: it would be called for each element.
constexpr auto kOne = [](float, float) { return 1.0f; };

Result<BoundGradient> BindAdd(const GradientArgs& args) {
  return TwoValues(args, [](float a, float b) { return a + b; }, kOne, kOne);
}
Result<BoundGradient> BindSub(const GradientArgs& args) {
  return TwoValues(
      args, [](float a, float b) { return a - b; }, kOne, [](float, float) { return -1.0f; });
}
Result<BoundGradient> BindMul(const GradientArgs& args) {
  return TwoValues(
      args, [](float a, float b) { return a * b; }, [](float, float b) { return b; },
      [](float a, float) { return a; });
}
Result<BoundGradient> BindDiv(const GradientArgs& args) {
  return TwoValues(
      args, [](float a, float b) { return a / b; }, [](float, float b) { return 1 / b; },
      [](float a, float b) { return -a / (b * b); });
}

// Squares are what most models take powers of. By the exponent, 0 where a is 0: a^b is 0 around it.
float Power(float a, float b) { return b == 2 ? a * a : PowF(a, b); }
Result<BoundGradient> BindPow(const GradientArgs& args) {
  return TwoValues(
      args, Power, [](float a, float b) { return b == 2 ? 2 * a : b * PowF(a, b - 1); },
      [](float a, float b) { return a == 0 ? 0 : Power(a, b) * LogF(a); });
}

// x and a slope for negative numbers, as of each channel (He et al., "Delving Deep into
// Rectifiers", 2015).
Result<BoundGradient> BindPRelu(const GradientArgs& args) {
  return TwoValues(
      args, [](float x, float slope) { return x >= 0 ? x : slope * x; },
      [](float x, float slope) { return x > 0 ? 1.0f : slope; },
      [](float x, float) { return x > 0 ? 0.0f : x; });
}

}  // namespace

extern const GradientDef kGradientAdd, kGradientDiv, kGradientMul, kGradientPRelu, kGradientPow,
    kGradientSub;
const GradientDef kGradientPRelu = {
    .op = "PRelu", .differentiable = 0b11, .single = 0b10, .bind = BindPRelu};
const GradientDef kGradientAdd = {.op = "Add", .differentiable = 0b11, .bind = BindAdd};
const GradientDef kGradientDiv = {.op = "Div", .differentiable = 0b11, .bind = BindDiv};
const GradientDef kGradientMul = {.op = "Mul", .differentiable = 0b11, .bind = BindMul};
const GradientDef kGradientPow = {.op = "Pow", .differentiable = 0b11, .bind = BindPow};
const GradientDef kGradientSub = {.op = "Sub", .differentiable = 0b11, .bind = BindSub};

}  // namespace evoq
