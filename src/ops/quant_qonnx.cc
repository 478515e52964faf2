// Quant(x, scale, zeropt, bitwidth) of QONNX: fake quantization to any number of bits, under the
// names of the tools that write it. scale, zeropt and bitwidth broadcast to x.
#include "ops/quant_qonnx.h"

#include <cmath>

#include "ops/util.h"

namespace evoq {

Result<float (*)(float)> QonnxRounding(const std::string& mode) {
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

namespace {

InferResult Infer(const InferArgs& args) {
  EVOQ_TRY(QonnxRounding(args.node.attrs.String("rounding_mode", "ROUND")));
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

constexpr OpDef QuantOf(const char* domain) {
  return {.name = "Quant", .domain = domain, .min_inputs = 4, .max_inputs = 4, .infer = Infer};
}

}  // namespace

extern const OpDef kFinnQuant = QuantOf("finn.custom_op.general");
extern const OpDef kBrevitasQuant = QuantOf("onnx.brevitas");
extern const OpDef kQonnxQuant = QuantOf("qonnx.custom_op.general");

}  // namespace evoq
