#include "reference/real.h"

namespace evoq {
namespace {

double Clamped(double x, double low, double high) {
  const double bounded = low > x ? low : x;
  return high < bounded ? high : bounded;
}

// log(1 + e^x) without overflow.
double Softplus(double x) { return (x > 0 ? x : 0) + std::log1p(std::exp(-std::fabs(x))); }

double Gelu(double x, bool tanh) {
  constexpr double kSqrtHalf = 0.70710678118654752440, kSqrtTwoOverPi = 0.79788456080286535588;
  const double inner =
      tanh ? std::tanh(kSqrtTwoOverPi * (x + 0.044715 * (x * x * x))) : std::erf(x * kSqrtHalf);
  return 0.5 * x * (1 + inner);
}

}  // namespace

double Apply(const Unary& unary, double x) {
  const double alpha = unary.alpha, beta = unary.beta;
  switch (unary.kind) {
    case UnaryKind::kAbs: return std::fabs(x);
    case UnaryKind::kAcos: return std::acos(x);
    case UnaryKind::kAcosh: return std::acosh(x);
    case UnaryKind::kAsin: return std::asin(x);
    case UnaryKind::kAsinh: return std::asinh(x);
    case UnaryKind::kAtan: return std::atan(x);
    case UnaryKind::kAtanh: return std::atanh(x);
    case UnaryKind::kCeil: return std::ceil(x);
    case UnaryKind::kCelu: return x < 0 ? alpha * std::expm1(x / alpha) : x;
    case UnaryKind::kClip: return Clamped(x, alpha, beta);
    case UnaryKind::kCos: return std::cos(x);
    case UnaryKind::kCosh: return std::cosh(x);
    case UnaryKind::kElu: return x < 0 ? alpha * std::expm1(x) : x;
    case UnaryKind::kErf: return std::erf(x);
    case UnaryKind::kExp: return std::exp(x);
    case UnaryKind::kFloor: return std::floor(x);
    case UnaryKind::kGelu: return Gelu(x, unary.alpha != 0);
    case UnaryKind::kHardSigmoid: return Clamped(alpha * x + beta, 0, 1);
    case UnaryKind::kHardSwish: return x * Clamped(x / 6 + 0.5, 0, 1);
    case UnaryKind::kLeakyRelu: return x < 0 ? x * alpha : x;
    case UnaryKind::kLog: return std::log(x);
    case UnaryKind::kMish: return x * std::tanh(Softplus(x));
    case UnaryKind::kNeg: return -x;
    case UnaryKind::kReciprocal: return 1 / x;
    case UnaryKind::kRelu: return 0 > x ? 0 : x;
    case UnaryKind::kRound: return std::nearbyint(x);
    case UnaryKind::kSelu: return x > 0 ? beta * x : beta * (alpha * std::expm1(x));
    case UnaryKind::kShrink: return x < -beta ? x + alpha : x > beta ? x - alpha : 0;
    case UnaryKind::kSigmoid: return SigmoidOf(x);
    case UnaryKind::kSign: return x > 0 ? 1 : x < 0 ? -1 : x + 0;
    case UnaryKind::kSilu: return SiluOf(x);
    case UnaryKind::kSin: return std::sin(x);
    case UnaryKind::kSinh: return std::sinh(x);
    case UnaryKind::kSoftplus: return Softplus(x);
    case UnaryKind::kSoftsign: return x / (1 + std::fabs(x));
    case UnaryKind::kSqrt: return std::sqrt(x);
    case UnaryKind::kTan: return std::tan(x);
    case UnaryKind::kTanh: return std::tanh(x);
    case UnaryKind::kThresholdedRelu: return x > alpha ? x : 0;
  }
  return x;
}

}  // namespace evoq
