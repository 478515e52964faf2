// Add: y = activation(a + b), with broadcasting. Quantized: kernels/requant.h.
#include "kernels/math/unary.h"
#include "kernels/requant.h"
#include "ops/arithmetic.h"
#include "ops/broadcast.h"
#include "ops/op.h"

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

// Reads element i of an 8- or 16-bit integer tensor.
struct IntegerReader {
  explicit IntegerReader(const Tensor& t) : data(t.raw()), dtype(t.dtype()) {}
  int32_t operator[](int64_t i) const {
    switch (dtype) {
      case DType::kUint8: return reinterpret_cast<const uint8_t*>(data)[i];
      case DType::kInt8: return reinterpret_cast<const int8_t*>(data)[i];
      case DType::kUint16: return reinterpret_cast<const uint16_t*>(data)[i];
      default: return reinterpret_cast<const int16_t*>(data)[i];
    }
  }
  const std::byte* data;
  DType dtype;
};

bool HasIntegerDefinition(const TensorType& type) {
  const int bits = DTypeBits(type.dtype);
  return type.quantized() && type.quant->per_tensor() && (bits == 8 || bits == 16);
}

EvalResult EvaluateQuantized(const EvalArgs& args) {
  const Tensor &a = args.inputs[0], &b = args.inputs[1];
  const TensorType& out = args.output_types[0];
  if (!HasIntegerDefinition(a.type()) || !HasIntegerDefinition(b.type()) || !HasIntegerDefinition(out))
    return Unsupported("{} + {} to {}", a.type().ToString(), b.type().ToString(), out.ToString());
  EVOQ_ASSIGN(const Activation activation, ActivationFromAttrs(args.node.attrs));
  if (!IsPiecewiseLinear(activation.kind)) return Unsupported("activation {}", ActivationName(activation.kind));
  const QuantParams &qa = *a.type().quant, &qb = *b.type().quant, &qy = *out.quant;
  const float scale_y = qy.scales[0];
  const float ra = ScaleRatio(qa.scales[0], scale_y), rb = ScaleRatio(qb.scales[0], scale_y);
  const Activation scaled = ScaledActivation(activation, scale_y);
  const int32_t za = qa.zero_points[0], zb = qb.zero_points[0], zy = qy.zero_points[0];
  const int32_t low = static_cast<int32_t>(IntegerMin(out.dtype)), high = static_cast<int32_t>(IntegerMax(out.dtype));

  EVOQ_ASSIGN(Shape shape, BroadcastShapes(a.shape(), b.shape()));
  EVOQ_ASSIGN(Tensor y, AllocateOutput(TensorType(out.dtype, std::move(shape), qy)));
  std::byte* to = y.mutable_raw();
  const bool wide = DTypeBits(out.dtype) == 16;
  const IntegerReader read_a(a), read_b(b);
  ForEachBroadcastRow(a.sizes(), b.sizes(), y.sizes(), [&](int64_t first, int64_t ia, int64_t a_step, int64_t ib,
                                                           int64_t b_step, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      const float v = static_cast<float>(read_a[ia + i * a_step] - za) * ra +
                      static_cast<float>(read_b[ib + i * b_step] - zb) * rb;
      const int32_t q = RoundToInteger(Apply(scaled, v), zy, low, high);
      if (wide) {
        reinterpret_cast<uint16_t*>(to)[first + i] = static_cast<uint16_t>(q);
      } else {
        reinterpret_cast<uint8_t*>(to)[first + i] = static_cast<uint8_t>(q);
      }
    }
  });
  return One(std::move(y));
}

}  // namespace

extern const OpDef kAdd = {.name = "Add", .min_inputs = 2, .max_inputs = 2, .quant = QuantTrait::kReal,
                           .elementwise = true, .infer = Infer, .evaluate = Evaluate,
                           .evaluate_quantized = EvaluateQuantized};

}  // namespace evoq
