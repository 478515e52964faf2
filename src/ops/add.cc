// Add: y = activation(a + b), with broadcasting. Quantized: kernels/requant.h.
#include "kernels/math/unary.h"
#include "ops/arithmetic.h"
#include "ops/integer_pair.h"

namespace evoq {
namespace {

InferResult Infer(const InferArgs& args) {
  EVOQ_ASSIGN(const Activation activation, ActivationFromAttrs(args.node.attrs));
  if (activation.kind != ActivationKind::kNone) EVOQ_TRY(CheckFloat(args, 0));
  return BroadcastInputs(args);
}

EvalResult Evaluate(const EvalArgs& args) {
  const Tensor &a = args.inputs[0], &b = args.inputs[1];
  EVOQ_ASSIGN(const Activation activation, ActivationFromAttrs(args.node.attrs));
  if (const auto unary = UnaryFromActivation(activation)) {
    if (a.dtype() != DType::kFloat32) return Unsupported("{} with an activation", DTypeName(a.dtype()));
    EVOQ_ASSIGN(Tensor y, (BroadcastMap<float, float>(a, b, a.dtype(), [&](float p, float q) {
                  return Apply(*unary, p + q);
                })));
    return One(std::move(y));
  }
  return DispatchNumber(a.dtype(), [&](auto tag) -> EvalResult {
    using T = decltype(tag);
    EVOQ_ASSIGN(Tensor y, (BroadcastMap<T, T>(a, b, a.dtype(), AddFn())));
    return One(std::move(y));
  });
}

EvalResult EvaluateQuantized(const EvalArgs& args) {
  EVOQ_ASSIGN(const Activation activation, ActivationFromAttrs(args.node.attrs));
  if (!IsPiecewiseLinear(activation.kind)) return Unsupported("activation {}", ActivationName(activation.kind));
  const auto scale = [](const TensorType& type) { return type.quantized() ? type.quant->scales[0] : 1.0f; };
  const float scale_y = scale(args.output_types[0]);
  const float ra = ScaleRatio(scale(args.inputs[0].type()), scale_y), rb = ScaleRatio(scale(args.inputs[1].type()), scale_y);
  const Activation scaled = ScaledActivation(activation, scale_y);
  return EvaluateIntegerPair(args, [&](int32_t a, int32_t b) {
    return Apply(scaled, static_cast<float>(a) * ra + static_cast<float>(b) * rb);
  });
}

}  // namespace

extern const OpDef kAdd = {.name = "Add", .min_inputs = 2, .max_inputs = 2, .quant = QuantTrait::kReal,
                           .elementwise = true, .infer = Infer, .evaluate = Evaluate,
                           .evaluate_quantized = EvaluateQuantized};

}  // namespace evoq
