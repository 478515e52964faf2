// QuantizeLinear, DequantizeLinear and DynamicQuantizeLinear.
//
// The dialect's one-input forms are the identity on real values: the driver quantizes to the
// output's type and dequantizes from the input's. The forms with scale and zero-point inputs are
// ONNX's, on plain integer types.
#include <algorithm>
#include <cmath>

#include "base/math.h"
#include "kernels/math/math.h"
#include "kernels/requant.h"
#include "ops/linear.h"

namespace evoq {
namespace {

bool IsStorage(DType dtype) {
  return (IsInteger(dtype) && DTypeBits(dtype) <= 16) || IsTinyFloat(dtype);
}

// The quantized type that scale (input 1), zero point (input 2), axis and block_size give to
// integers of `dtype`.
Result<TensorType> TypeFromInputs(const EvalArgs& args, DType dtype) {
  const Tensor &x = args.inputs[0], &scale = args.inputs[1];
  const Tensor* zero_point = args.has(2) ? &args.inputs[2] : nullptr;
  EVOQ_ASSIGN(const int64_t block, IntAttr(args.node, "block_size", 0));
  if (block < 0) return InvalidInput("attribute block_size is {}, expected 0 or more", block);
  if (scale.elements() == 1 && scale.shape().rank() <= 1)
    return QuantizedType(dtype, x.shape(), scale, zero_point, -1);
  EVOQ_ASSIGN(const int axis, NormalizeAxis(args.node.attrs.Int("axis", 1), x.shape().rank()));
  if (block == 0) return QuantizedType(dtype, x.shape(), scale, zero_point, axis);
  if (scale.shape().rank() != x.shape().rank())
    return InvalidInput("input 1 has rank {}, expected {}", scale.shape().rank(), x.shape().rank());
  for (int d = 0; d < x.shape().rank(); ++d) {
    const int64_t expected = d == axis ? CeilDiv(x.shape()[d].value, block) : x.shape()[d].value;
    if (scale.shape()[d].value != expected)
      return InvalidInput("input 1 is {}, expected size {} on axis {}", scale.type().ToString(),
                          expected, d);
  }
  const Shape flat{scale.elements()};
  EVOQ_ASSIGN(const TensorType listed, QuantizedType(dtype, flat, scale, zero_point, 0));
  QuantParams quant = *listed.quant;
  quant.axis = axis;
  quant.block = block;
  return TensorType(dtype, x.shape(), std::move(quant));
}

// The scale of every element, where the stored numbers are tiny floats: they have no zero point.
Result<Tensor> ScalesOf(const EvalArgs& args) {
  EvalArgs without_zero = args;
  without_zero.inputs = args.inputs.first(2);
  EVOQ_ASSIGN(const TensorType type, TypeFromInputs(without_zero, DType::kInt8));
  Tensor ones = Tensor::Allocate(TensorType(DType::kInt8, type.shape));
  std::fill_n(ones.mutable_data<int8_t>(), ones.elements(), int8_t{1});
  return ToFloat32(ones.WithType(type));
}

// y = x / scale, rounded to `dtype`.
EvalResult QuantizeToTiny(const EvalArgs& args, DType dtype) {
  EVOQ_ASSIGN(Tensor scaled, ScalesOf(args));
  EVOQ_ASSIGN(const Tensor real, ToFloat32(args.inputs[0]));
  float* y = scaled.mutable_data<float>();
  for (int64_t i = 0; i < real.elements(); ++i) y[i] = real.data<float>()[i] / y[i];
  EVOQ_ASSIGN(Tensor stored, FromFloat32(scaled, dtype, args.node.attrs.Int("saturate", 1) != 0));
  return One(std::move(stored));
}

EvalResult DequantizeTiny(const EvalArgs& args) {
  EVOQ_ASSIGN(Tensor scaled, ScalesOf(args));
  EVOQ_ASSIGN(const Tensor real, ToFloat32(args.inputs[0]));
  float* y = scaled.mutable_data<float>();
  for (int64_t i = 0; i < real.elements(); ++i) y[i] = real.data<float>()[i] * y[i];
  EVOQ_ASSIGN(Tensor stored, FromFloat32(scaled, args.output_types[0].dtype));
  return One(std::move(stored));
}

Status CheckScale(const InferArgs& args) {
  EVOQ_TRY(IntAttr(args.node, "axis", 1));
  EVOQ_TRY(IntAttr(args.node, "block_size", 0));
  EVOQ_TRY(IntAttr(args.node, "output_dtype", 0));
  EVOQ_TRY(CheckFloat(args, 1));
  if (args.has(2) && !IsInteger(args.inputs[2].dtype) && !IsTinyFloat(args.inputs[2].dtype))
    return Unsupported(
        "input 2 (zero point) is {}, expected an integer or 8-bit floating-point type",
        args.inputs[2].ToString());
  return {};
}

// The attribute output_dtype, an ONNX number, or `fallback` when it is 0.
Result<DType> OutputDType(const Node& node, DType fallback) {
  const int64_t number = node.attrs.Int("output_dtype", 0);
  if (number == 0) return fallback;
  const auto dtype =
      number > 0 && number < 128 ? DTypeFromOnnx(static_cast<int>(number)) : std::nullopt;
  if (!dtype) return Unsupported("attribute output_dtype is {}", number);
  return *dtype;
}

InferResult InferQuantize(const InferArgs& args) {
  const TensorType& x = args.inputs[0];
  if (!args.has(1)) return std::vector<TensorType>{x.Dequantized()};
  EVOQ_TRY(CheckScale(args));
  EVOQ_ASSIGN(DType dtype, OutputDType(args.node, DType::kUint8));
  if (args.has(2)) dtype = args.inputs[2].dtype;
  if (!IsStorage(dtype)) return Unsupported("quantizing to {}", DTypeName(dtype));
  return std::vector<TensorType>{TensorType(dtype, x.shape)};
}

EvalResult EvaluateQuantize(const EvalArgs& args) {
  const Tensor& x = args.inputs[0];
  if (!args.has(1)) return One(x);
  if (IsTinyFloat(args.output_types[0].dtype))
    return QuantizeToTiny(args, args.output_types[0].dtype);
  EVOQ_ASSIGN(const TensorType type, TypeFromInputs(args, args.output_types[0].dtype));
  EVOQ_ASSIGN(const Tensor real, ToFloat32(x));
  EVOQ_ASSIGN(const Tensor y, QuantizeTensor(real, type));
  return One(y.WithType(TensorType(type.dtype, type.shape)));
}

InferResult InferDequantize(const InferArgs& args) {
  const TensorType& x = args.inputs[0];
  if (!args.has(1)) {
    if (x.dtype != DType::kFloat32)
      return InvalidInput("input 0 is {}, expected a quantized value, or a scale as input 1",
                          x.ToString());
    return SameAsInput0(args);
  }
  EVOQ_TRY(CheckScale(args));
  if (!IsTinyFloat(x.dtype) && (!IsInteger(x.dtype) || DTypeBits(x.dtype) > 32))
    return Unsupported("dequantizing {}", x.ToString());
  EVOQ_ASSIGN(const DType dtype, OutputDType(args.node, args.inputs[1].dtype));
  if (!IsFloat(dtype)) return Unsupported("dequantizing to {}", DTypeName(dtype));
  return std::vector<TensorType>{TensorType(dtype, x.shape)};
}

EvalResult EvaluateDequantize(const EvalArgs& args) {
  const Tensor& x = args.inputs[0];
  if (!args.has(1)) return One(x);
  if (IsTinyFloat(x.dtype())) return DequantizeTiny(args);
  EVOQ_ASSIGN(TensorType type, TypeFromInputs(args, x.dtype()));
  EVOQ_ASSIGN(const Tensor y, ToFloat32(x.WithType(std::move(type))));
  EVOQ_ASSIGN(Tensor stored, FromFloat32(y, args.output_types[0].dtype));
  return One(std::move(stored));
}

// ---- DynamicQuantizeLinear(x, range?) -> y: uint8, scale, zero point. The range is that of x and
// 0; the dialect's second input, float32[2], holds it where it is known already.

InferResult InferDynamicQuantize(const InferArgs& args) {
  EVOQ_TRY(CheckDType(args, 0, std::array{DType::kFloat32}));
  if (args.has(1)) {
    EVOQ_TRY(CheckDType(args, 1, std::array{DType::kFloat32}));
    if (!(args.inputs[1].shape == Shape{2}))
      return InvalidInput("input 1 (range) is {}, expected 2 elements", args.inputs[1].ToString());
  }
  return std::vector<TensorType>{TensorType(DType::kUint8, args.inputs[0].shape),
                                 TensorType(DType::kFloat32, Shape{}),
                                 TensorType(DType::kUint8, Shape{})};
}

EvalResult EvaluateDynamicQuantize(const EvalArgs& args) {
  const Tensor& x = args.inputs[0];
  const float* range = args.has(1) ? args.inputs[1].data<float>() : nullptr;
  const float low = range ? range[0] : std::fmin(MinF(x.data<float>(), x.elements()), 0.0f);
  const float high = range ? range[1] : std::fmax(MaxF(x.data<float>(), x.elements()), 0.0f);
  const float scale = high > low ? (high - low) / 255.0f : 1.0f;
  const int32_t zero = RoundToInteger(-low / scale, 0, 0, 255);
  Tensor y = Tensor::Allocate(TensorType(DType::kUint8, x.shape()));
  for (int64_t i = 0; i < x.elements(); ++i)
    y.mutable_data<uint8_t>()[i] =
        static_cast<uint8_t>(QuantizeValue(x.data<float>()[i], scale, zero, 0, 255));
  return std::vector<Tensor>{std::move(y), Tensor::Scalar(scale),
                             Tensor::Scalar(static_cast<uint8_t>(zero))};
}

}  // namespace

extern const OpDef kDequantizeLinear = {.name = "DequantizeLinear",
                                        .max_inputs = 3,
                                        .quant = QuantTrait::kReal,
                                        .elementwise = true,
                                        .infer = InferDequantize,
                                        .evaluate = EvaluateDequantize,
                                        .roles = {Role::kData, Role::kScale, Role::kZeroPoint},
                                        .conversion = PrecisionChange::kDequantize};
extern const OpDef kDynamicQuantizeLinear = {.name = "DynamicQuantizeLinear",
                                             .max_inputs = 2,
                                             .outputs = 3,
                                             .infer = InferDynamicQuantize,
                                             .evaluate = EvaluateDynamicQuantize,
                                             .conversion = PrecisionChange::kQuantize,
                                             .ranges_at_run_time = true};
extern const OpDef kQuantizeLinear = {.name = "QuantizeLinear",
                                      .max_inputs = 3,
                                      .quant = QuantTrait::kReal,
                                      .elementwise = true,
                                      .infer = InferQuantize,
                                      .evaluate = EvaluateQuantize,
                                      .roles = {Role::kData, Role::kScale, Role::kZeroPoint},
                                      .conversion = PrecisionChange::kQuantize};

}  // namespace evoq
