// Add: y = activation(a + b), with broadcasting. Quantized: kernels/add_terms.h.
#include <algorithm>

#include "kernels/add_terms.h"
#include "kernels/math/unary.h"
#include "reference/arithmetic.h"
#include "reference/definition.h"
#include "reference/integer_pair.h"
#include "reference/real.h"
#include "reference/util.h"

namespace evoq {
namespace {

EvalResult Evaluate(const EvalArgs& args) {
  const Tensor &a = args.inputs[0], &b = args.inputs[1];
  EVOQ_ASSIGN(const Activation activation, ActivationFromAttrs(args.node.attrs));
  EVOQ_ASSIGN(Tensor y, AllocateBroadcast(a, b, a.dtype()));
  if (const auto unary = UnaryFromActivation(activation)) {
    EVOQ_TRY(DispatchFloat(a.dtype(), [&](auto tag) -> Status {
      using T = decltype(tag);
      BroadcastInto<T, T>(a, b, y, [&](T p, T q) { return Apply(*unary, p + q); });
      return {};
    }));
    return One(std::move(y));
  }
  EVOQ_TRY(DispatchNumber(a.dtype(), [&](auto tag) -> Status {
    using T = decltype(tag);
    BroadcastInto<T, T>(a, b, y, AddFn());
    return {};
  }));
  return One(std::move(y));
}

// A piecewise-linear activation where `zero` stands for the real 0 and a step for `scale`.
float ApplyAbout(float zero, const Activation& activation, float scale, float v) {
  switch (activation.kind) {
    case ActivationKind::kRelu: return std::max(v, zero);
    case ActivationKind::kClip:
      return std::min(std::max(v, ScaleRatio(activation.alpha, scale) + zero),
                      ScaleRatio(activation.beta, scale) + zero);
    case ActivationKind::kLeakyRelu: return v < zero ? (v - zero) * activation.alpha + zero : v;
    default: return v;
  }
}

EvalResult EvaluateQuantized(const EvalArgs& args) {
  EVOQ_ASSIGN(const Activation activation, ActivationFromAttrs(args.node.attrs));
  if (!IsPiecewiseLinear(activation.kind))
    return Unsupported("activation {}", ActivationName(activation.kind));
  EVOQ_TRY(CheckIntegerPair(args));
  const IntegerScale a(args.inputs[0].type()), b(args.inputs[1].type()), y(args.output_types[0]);
  const AddTerms terms(a.scale, a.zero - a.low, b.scale, b.zero - b.low, y.scale, y.zero - y.low);
  return EvaluateIntegerPair(args, [&](int32_t p, int32_t q) {
    const float v = ApplyAbout(static_cast<float>(y.zero - y.low), activation, y.scale,
                               terms.Sum(p - a.low, q - b.low));
    return RoundToInteger(v, 0, 0, y.high - y.low) + y.low;
  });
}

}  // namespace

namespace reference {

extern const Definition kAdd = {
    .name = "Add", .evaluate = Evaluate, .evaluate_quantized = EvaluateQuantized};

}  // namespace reference
}  // namespace evoq
