// QuantizeLinear, DequantizeLinear and DynamicQuantizeLinear: with ONNX's scale and zero-point
// inputs on plain integer types, or, in the dialect, with one input and a quantized type.
#include <cmath>

#include "base/math.h"
#include "ops/linear.h"
#include "ops/util.h"

namespace evoq {
namespace {

bool IsStorage(DType dtype) {
  return (IsInteger(dtype) && DTypeBits(dtype) <= 16) || IsTinyFloat(dtype);
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

// Of blocks there are as many scales as the sizes say, where these are known.
Status CheckBlocks(const InferArgs& args) {
  const Shape &x = args.inputs[0].shape, &scale = args.inputs[1].shape;
  EVOQ_ASSIGN(const int64_t block, IntAttr(args.node, "block_size", 0));
  if (block <= 0 || !x.is_static() || !scale.is_static() ||
      (scale.rank() <= 1 && scale.elements() == 1))
    return {};
  if (scale.rank() != x.rank())
    return InvalidInput("input 1 has rank {}, expected {}", scale.rank(), x.rank());
  EVOQ_ASSIGN(const int axis, NormalizeAxis(args.node.attrs.Int("axis", 1), x.rank()));
  for (int d = 0; d < x.rank(); ++d) {
    const int64_t expected = d == axis ? CeilDiv(x[d].value, block) : x[d].value;
    if (scale[d].value != expected)
      return InvalidInput("input 1 is {}, expected size {} on axis {}", args.inputs[1].ToString(),
                          expected, d);
  }
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
  EVOQ_TRY(CheckBlocks(args));
  EVOQ_ASSIGN(DType dtype, OutputDType(args.node, DType::kUint8));
  if (args.has(2)) dtype = args.inputs[2].dtype;
  if (!IsStorage(dtype)) return Unsupported("quantizing to {}", DTypeName(dtype));
  return std::vector<TensorType>{TensorType(dtype, x.shape)};
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
  EVOQ_TRY(CheckBlocks(args));
  if (!IsTinyFloat(x.dtype) && (!IsInteger(x.dtype) || DTypeBits(x.dtype) > 32))
    return Unsupported("dequantizing {}", x.ToString());
  EVOQ_ASSIGN(const DType dtype, OutputDType(args.node, args.inputs[1].dtype));
  if (!IsFloat(dtype)) return Unsupported("dequantizing to {}", DTypeName(dtype));
  return std::vector<TensorType>{TensorType(dtype, x.shape)};
}

// ---- DynamicQuantizeLinear(x, range?) -> y

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

// ---- evoq::DynamicQuantizeBytes(x, range?) -> y

Status CheckPositive(const InferArgs& args, const char* attribute) {
  const float value = args.node.attrs.Float(attribute, 0);
  if (!(value > 0) || !std::isfinite(value))
    return InvalidInput("attribute {} is {}, expected more than 0", attribute, value);
  return {};
}

InferResult InferDynamicBytes(const InferArgs& args) {
  EVOQ_TRY(CheckPositive(args, "ratio"));
  EVOQ_ASSIGN(std::vector<TensorType> types, InferDynamicQuantize(args));
  types.push_back(types[0]);
  types.push_back(types[1]);
  return types;
}

// ---- evoq::QuantizeBytes(x, scale, zero_point) -> y, rest

InferResult InferBytes(const InferArgs& args) {
  EVOQ_TRY(CheckPositive(args, "rest_scale"));
  EVOQ_TRY(CheckDType(args, 0, std::array{DType::kFloat32}));
  EVOQ_TRY(CheckDType(args, 1, std::array{DType::kFloat32}));
  EVOQ_TRY(CheckDType(args, 2, std::array{DType::kUint8}));
  for (size_t i : {size_t{1}, size_t{2}}) {
    if (args.inputs[i].shape.is_static() && args.inputs[i].shape.elements() != 1)
      return InvalidInput("input {} is {}, expected one element", i, args.inputs[i].ToString());
  }
  return std::vector<TensorType>(2, TensorType(DType::kUint8, args.inputs[0].shape));
}

}  // namespace

extern const OpDef kDequantizeLinear = {.name = "DequantizeLinear",
                                        .max_inputs = 3,
                                        .quant = QuantTrait::kReal,
                                        .elementwise = true,
                                        .infer = InferDequantize,
                                        .roles = {Role::kData, Role::kScale, Role::kZeroPoint},
                                        .conversion = PrecisionChange::kDequantize};
extern const OpDef kDynamicQuantizeLinear = {.name = "DynamicQuantizeLinear",
                                             .max_inputs = 2,
                                             .outputs = 3,
                                             .infer = InferDynamicQuantize,
                                             .conversion = PrecisionChange::kQuantize,
                                             .ranges_at_run_time = true};
extern const OpDef kDynamicQuantizeBytes = {.name = "DynamicQuantizeBytes",
                                            .domain = "evoq",
                                            .max_inputs = 2,
                                            .outputs = 5,
                                            .infer = InferDynamicBytes,
                                            .conversion = PrecisionChange::kQuantize,
                                            .ranges_at_run_time = true};
extern const OpDef kQuantizeBytes = {.name = "QuantizeBytes",
                                     .domain = "evoq",
                                     .min_inputs = 3,
                                     .max_inputs = 3,
                                     .outputs = 2,
                                     .infer = InferBytes,
                                     .roles = {Role::kData, Role::kScale, Role::kZeroPoint},
                                     .conversion = PrecisionChange::kQuantize};
extern const OpDef kQuantizeLinear = {.name = "QuantizeLinear",
                                      .max_inputs = 3,
                                      .quant = QuantTrait::kReal,
                                      .elementwise = true,
                                      .infer = InferQuantize,
                                      .roles = {Role::kData, Role::kScale, Role::kZeroPoint},
                                      .conversion = PrecisionChange::kQuantize};

}  // namespace evoq
