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
#include "reference/definition.h"
#include "reference/linear.h"
#include "reference/util.h"

namespace evoq {
namespace {

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

// The scale of every element, where the stored numbers are tiny floats: they have no zero point,
// and their scales may be any numbers, 0 too.
Result<Tensor> ScalesOf(const EvalArgs& args) {
  EVOQ_ASSIGN(const Tensor scales, ToFloat32(args.inputs[1]));
  Tensor ones = Tensor::Allocate(scales.type());
  std::fill_n(ones.mutable_data<float>(), ones.elements(), 1.0f);
  const Tensor inputs[] = {args.inputs[0], ones};
  EvalArgs with_ones = args;
  with_ones.inputs = inputs;
  EVOQ_ASSIGN(const TensorType type, TypeFromInputs(with_ones, DType::kInt8));
  Tensor of_each = Tensor::Allocate(TensorType(DType::kFloat32, type.shape));
  const QuantParams& q = *type.quant;
  const auto along = static_cast<size_t>(std::max(q.axis, 0));
  const std::vector<int64_t> sizes = type.shape.sizes();
  int64_t inner = 1;
  for (size_t d = along + 1; d < sizes.size(); ++d) inner *= sizes[d];
  for (int64_t i = 0; i < of_each.elements(); ++i) {
    int64_t s = q.per_tensor() ? 0 : i / inner % sizes[along];
    if (q.block > 0)
      s = (i / inner / sizes[along] * CeilDiv(sizes[along], q.block) + s / q.block) * inner +
          i % inner;
    of_each.mutable_data<float>()[i] = scales.data<float>()[s];
  }
  return of_each;
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

// ---- evoq::DynamicQuantizeBytes(x, range?) -> y, scale, zero as DynamicQuantizeLinear has them,
// and what y leaves of x: uint8 with the scale ratio * scale and the zero point 128.

// What the bytes y leave of x.
Tensor RestOf(const Tensor& x, const Tensor& bytes, float scale, int32_t zero, float rest_scale) {
  const auto* y = bytes.data<uint8_t>();
  Tensor rest = Tensor::Allocate(TensorType(DType::kUint8, x.shape()));
  for (int64_t i = 0; i < x.elements(); ++i) {
    const float rounded = static_cast<float>(y[i] - zero) * scale;
    rest.mutable_data<uint8_t>()[i] =
        static_cast<uint8_t>(QuantizeValue(x.data<float>()[i] - rounded, rest_scale, 128, 0, 255));
  }
  return rest;
}

EvalResult EvaluateDynamicBytes(const EvalArgs& args) {
  EVOQ_ASSIGN(std::vector<Tensor> outputs, EvaluateDynamicQuantize(args));
  const float scale = outputs[1].data<float>()[0];
  const float rest_scale = scale * args.node.attrs.Float("ratio", 0);
  outputs.push_back(
      RestOf(args.inputs[0], outputs[0], scale, outputs[2].data<uint8_t>()[0], rest_scale));
  outputs.push_back(Tensor::Scalar(rest_scale));
  return outputs;
}

// ---- evoq::QuantizeBytes(x, scale, zero_point) -> y as QuantizeLinear has it, and what y leaves
// of x: uint8 with the scale `rest_scale` and the zero point 128.

EvalResult EvaluateBytes(const EvalArgs& args) {
  const Tensor& x = args.inputs[0];
  const float scale = args.inputs[1].data<float>()[0];
  const int32_t zero = args.inputs[2].data<uint8_t>()[0];
  const auto type = TensorType(DType::kUint8, x.shape(), QuantParams::PerTensor(scale, zero));
  EVOQ_ASSIGN(const Tensor quantized, QuantizeTensor(x, type));
  Tensor y = quantized.WithType(TensorType(DType::kUint8, x.shape()));
  Tensor rest = RestOf(x, y, scale, zero, args.node.attrs.Float("rest_scale", 0));
  return std::vector<Tensor>{std::move(y), std::move(rest)};
}

}  // namespace

namespace reference {

extern const Definition kDequantizeLinear = {.name = "DequantizeLinear",
                                             .evaluate = EvaluateDequantize};
extern const Definition kDynamicQuantizeLinear = {.name = "DynamicQuantizeLinear",
                                                  .evaluate = EvaluateDynamicQuantize};
extern const Definition kDynamicQuantizeBytes = {
    .name = "DynamicQuantizeBytes", .domain = "evoq", .evaluate = EvaluateDynamicBytes};
extern const Definition kQuantizeBytes = {
    .name = "QuantizeBytes", .domain = "evoq", .evaluate = EvaluateBytes};
extern const Definition kQuantizeLinear = {.name = "QuantizeLinear", .evaluate = EvaluateQuantize};

}  // namespace reference
}  // namespace evoq
