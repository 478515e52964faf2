// Quant(x, scale, zeropt, bitwidth) of QONNX: fake quantization to any number of bits, under the
// names of the tools that write it. scale, zeropt and bitwidth broadcast to x. With v = x / scale +
// zeropt:
//   y = (round(clip(v, low, high)) - zeropt) * scale; one signed bit is bipolar: round(v) is 1 for
//   v >= 0, else -1.
#include <cmath>

#include "ops/util.h"

namespace evoq {
namespace {

// QONNX's rounding modes.
Result<float (*)(float)> RoundingFrom(const std::string& mode) {
  using Rounding = float (*)(float);
  if (mode == "ROUND") return Rounding([](float v) { return std::nearbyintf(v); });
  if (mode == "CEIL") return Rounding([](float v) { return std::ceil(v); });
  if (mode == "FLOOR") return Rounding([](float v) { return std::floor(v); });
  if (mode == "UP")
    return Rounding([](float v) { return std::copysign(std::ceil(std::fabs(v)), v); });
  if (mode == "DOWN" || mode == "ROUND_TO_ZERO")
    return Rounding([](float v) { return std::trunc(v); });
  if (mode == "HALF_UP")
    return Rounding([](float v) { return std::copysign(std::floor(std::fabs(v) + 0.5f), v); });
  if (mode == "HALF_DOWN")
    return Rounding([](float v) { return std::copysign(std::ceil(std::fabs(v) - 0.5f), v); });
  return InvalidInput(
      "attribute rounding_mode is '{}', expected ROUND, CEIL, FLOOR, UP, DOWN, HALF_UP or "
      "HALF_DOWN",
      mode);
}

InferResult Infer(const InferArgs& args) {
  EVOQ_TRY(RoundingFrom(args.node.attrs.String("rounding_mode", "ROUND")));
  const TensorType& x = args.inputs[0];
  for (size_t i = 0; i < 4; ++i) {
    EVOQ_TRY(CheckFloat(args, i));
    EVOQ_ASSIGN(const Shape all, BroadcastShapes(x.shape, args.inputs[i].shape));
    if (x.shape.is_static() && all.is_static() && all != x.shape)
      return InvalidInput("input {} is {}, expected a shape that broadcasts to {}", i,
                          args.inputs[i].ToString(), x.ToString());
  }
  return SameAsInput0(args);
}

EvalResult Evaluate(const EvalArgs& args) {
  const Attrs& attrs = args.node.attrs;
  for (const Tensor& tensor : args.inputs) {
    if (tensor.dtype() != DType::kFloat32)
      return Unsupported("{} input", DTypeName(tensor.dtype()));
  }
  EVOQ_ASSIGN(const auto round, RoundingFrom(attrs.String("rounding_mode", "ROUND")));
  const bool is_signed = attrs.Int("signed", 1) != 0, narrow = attrs.Int("narrow", 0) != 0;
  const Tensor& x = args.inputs[0];
  const std::vector<int64_t> sizes = x.sizes();
  std::array<std::vector<int64_t>, 3> strides;
  for (size_t i = 0; i < 3; ++i) strides[i] = BroadcastStrides(args.inputs[i + 1].sizes(), sizes);
  Tensor y = Tensor::Allocate(x.type());
  float* out = y.mutable_data<float>();
  ForEachIndex<3>(sizes, strides, [&](int64_t i, const auto& offset) {
    const float scale = args.inputs[1].data<float>()[offset[0]];
    const float zero = args.inputs[2].data<float>()[offset[1]];
    const float bits = args.inputs[3].data<float>()[offset[2]];
    float v = x.data<float>()[i] / scale + zero;
    if (bits == 1 && is_signed) {
      v = v >= 0 ? 1.0f : -1.0f;
    } else {
      const float levels = std::exp2(is_signed ? bits - 1 : bits);
      const float low = is_signed ? -levels + (narrow ? 1.0f : 0.0f) : 0.0f;
      const float high = is_signed ? levels - 1 : levels - (narrow ? 2.0f : 1.0f);
      v = round(std::fmax(std::fmin(v, high), low));
    }
    out[i] = (v - zero) * scale;
  });
  return One(std::move(y));
}

constexpr OpDef QuantOf(const char* domain) {
  return {.name = "Quant",
          .domain = domain,
          .min_inputs = 4,
          .max_inputs = 4,
          .infer = Infer,
          .evaluate = Evaluate};
}

}  // namespace

extern const OpDef kFinnQuant = QuantOf("finn.custom_op.general");
extern const OpDef kBrevitasQuant = QuantOf("onnx.brevitas");
extern const OpDef kQonnxQuant = QuantOf("qonnx.custom_op.general");

}  // namespace evoq
