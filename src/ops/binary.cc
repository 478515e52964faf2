// Arithmetic of two or more values with broadcasting: Sub, Mul, Div, Mod, Pow, PRelu; Max, Min,
// Mean, Sum.
#include "ops/util.h"

namespace evoq {
namespace {

InferResult InferNumbers(const InferArgs& args) {
  const DType dtype = args.inputs[0].dtype;
  if (!IsFloat(dtype) && !IsInteger(dtype))
    return InvalidInput("input 0 is {}, expected a number", DTypeName(dtype));
  for (size_t i = 0; i < args.inputs.size(); ++i) {
    if (!args.has(i)) return InvalidInput("input {} is missing", i);
  }
  return BroadcastInputs(args);
}

InferResult InferFloats(const InferArgs& args) {
  EVOQ_TRY(CheckFloat(args, 0));
  return InferNumbers(args);
}

// ---- Mod

InferResult InferMod(const InferArgs& args) {
  EVOQ_TRY(IntAttr(args.node, "fmod", 0));
  return InferNumbers(args);
}

// ---- Pow

InferResult InferPow(const InferArgs& args) {
  for (size_t i = 0; i < 2; ++i) {
    if (!IsFloat(args.inputs[i].dtype) && !IsInteger(args.inputs[i].dtype))
      return InvalidInput("input {} is {}, expected a number", i, args.inputs[i].ToString());
  }
  EVOQ_ASSIGN(Shape shape, BroadcastShapes(args.inputs[0].shape, args.inputs[1].shape));
  return std::vector<TensorType>{TensorType(args.inputs[0].dtype, std::move(shape))};
}

// ---- PRelu

InferResult InferPRelu(const InferArgs& args) {
  EVOQ_ASSIGN(std::vector<TensorType> types, InferNumbers(args));
  const Shape& x = args.inputs[0].shape;
  if (x.is_static() && types[0].shape.is_static() && !(types[0].shape == x))
    return InvalidInput("slope {} does not broadcast to {}", args.inputs[1].shape.ToString(),
                        x.ToString());
  return std::vector<TensorType>{args.inputs[0]};
}

constexpr OpDef BinaryOp(const char* name) {
  return {
      .name = name, .min_inputs = 2, .max_inputs = 2, .elementwise = true, .infer = InferNumbers};
}

constexpr OpDef VariadicOp(const char* name) {
  return {.name = name, .max_inputs = -1, .elementwise = true, .infer = InferNumbers};
}

}  // namespace

extern const OpDef kSub = BinaryOp("Sub");
extern const OpDef kMul = {.name = "Mul",
                           .min_inputs = 2,
                           .max_inputs = 2,
                           .quant = QuantTrait::kReal,
                           .elementwise = true,
                           .infer = InferNumbers,
                           .quantizes_constants = true};
extern const OpDef kDiv = BinaryOp("Div");
extern const OpDef kMax = VariadicOp("Max");
extern const OpDef kMin = VariadicOp("Min");
extern const OpDef kSum = VariadicOp("Sum");
extern const OpDef kMean = {
    .name = "Mean", .max_inputs = -1, .elementwise = true, .infer = InferFloats};
extern const OpDef kMod = {
    .name = "Mod", .min_inputs = 2, .max_inputs = 2, .elementwise = true, .infer = InferMod};
extern const OpDef kPow = {
    .name = "Pow", .min_inputs = 2, .max_inputs = 2, .elementwise = true, .infer = InferPow};
extern const OpDef kPRelu = {
    .name = "PRelu", .min_inputs = 2, .max_inputs = 2, .elementwise = true, .infer = InferPRelu};

}  // namespace evoq
