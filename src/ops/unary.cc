// Functions of one value, by element.
#include "ops/op.h"
#include "ops/util.h"

namespace evoq {
namespace {

InferResult InferFloat(const InferArgs& args) {
  for (const char* name : {"alpha", "beta", "gamma", "bias", "lambd"})
    EVOQ_TRY(FloatAttr(args.node, name, 0));
  return FloatSameAsInput0(args);
}

InferResult InferNumber(const InferArgs& args) {
  const DType dtype = args.inputs[0].dtype;
  if (!IsFloat(dtype) && !IsInteger(dtype))
    return InvalidInput("input 0 is {}, expected a number", DTypeName(dtype));
  return SameAsInput0(args);
}

// ---- Clip(x, min?, max?)

InferResult InferClip(const InferArgs& args) {
  const TensorType& x = args.inputs[0];
  for (size_t i = 1; i < 3; ++i) {
    if (!args.has(i)) continue;
    const TensorType& bound = args.inputs[i];
    if (bound.dtype != x.dtype || (bound.shape.is_static() && bound.shape.elements() != 1))
      return InvalidInput("input {} is {}, expected one {}", i, bound.ToString(),
                          DTypeName(x.dtype));
  }
  return InferNumber(args);
}

// ---- Not, BitwiseNot, IsNaN, IsInf

InferResult InferNot(const InferArgs& args) {
  EVOQ_TRY(CheckDType(args, 0, std::array{DType::kBool}));
  return SameAsInput0(args);
}

InferResult InferBitwiseNot(const InferArgs& args) {
  if (!IsInteger(args.inputs[0].dtype))
    return InvalidInput("input 0 is {}, expected an integer type", DTypeName(args.inputs[0].dtype));
  return SameAsInput0(args);
}

InferResult InferFloatTest(const InferArgs& args) {
  EVOQ_TRY(CheckFloat(args, 0));
  EVOQ_TRY(IntAttr(args.node, "detect_negative", 1));
  EVOQ_TRY(IntAttr(args.node, "detect_positive", 1));
  return std::vector<TensorType>{TensorType(DType::kBool, args.inputs[0].shape)};
}

constexpr OpDef FloatOp(const char* name) {
  return {.name = name, .quant = QuantTrait::kTable, .elementwise = true, .infer = InferFloat};
}

constexpr OpDef NumberOp(const char* name) {
  return {.name = name, .quant = QuantTrait::kTable, .elementwise = true, .infer = InferNumber};
}

}  // namespace

extern const OpDef kAbs = NumberOp("Abs");
extern const OpDef kNeg = NumberOp("Neg");
extern const OpDef kRelu = NumberOp("Relu");
extern const OpDef kSign = NumberOp("Sign");

extern const OpDef kAcos = FloatOp("Acos");
extern const OpDef kAcosh = FloatOp("Acosh");
extern const OpDef kAsin = FloatOp("Asin");
extern const OpDef kAsinh = FloatOp("Asinh");
extern const OpDef kAtan = FloatOp("Atan");
extern const OpDef kAtanh = FloatOp("Atanh");
extern const OpDef kCeil = FloatOp("Ceil");
extern const OpDef kCelu = FloatOp("Celu");
extern const OpDef kCos = FloatOp("Cos");
extern const OpDef kCosh = FloatOp("Cosh");
extern const OpDef kElu = FloatOp("Elu");
extern const OpDef kErf = FloatOp("Erf");
extern const OpDef kExp = FloatOp("Exp");
extern const OpDef kFloor = FloatOp("Floor");
extern const OpDef kLeakyRelu = FloatOp("LeakyRelu");
extern const OpDef kLog = FloatOp("Log");
extern const OpDef kReciprocal = FloatOp("Reciprocal");
extern const OpDef kRound = FloatOp("Round");
extern const OpDef kSelu = FloatOp("Selu");
extern const OpDef kShrink = FloatOp("Shrink");
extern const OpDef kSigmoid = FloatOp("Sigmoid");
extern const OpDef kSin = FloatOp("Sin");
extern const OpDef kSinh = FloatOp("Sinh");
extern const OpDef kSoftplus = FloatOp("Softplus");
extern const OpDef kSoftsign = FloatOp("Softsign");
extern const OpDef kSqrt = FloatOp("Sqrt");
extern const OpDef kTan = FloatOp("Tan");
extern const OpDef kTanh = FloatOp("Tanh");
extern const OpDef kThresholdedRelu = FloatOp("ThresholdedRelu");

extern const OpDef kSwish = {
    .name = "Swish", .quant = QuantTrait::kTable, .elementwise = true, .infer = InferFloat};
extern const OpDef kClip = {.name = "Clip",
                            .max_inputs = 3,
                            .quant = QuantTrait::kTable,
                            .elementwise = true,
                            .infer = InferClip,
                            .roles = {Role::kData, Role::kBound, Role::kBound}};
extern const OpDef kNot = {.name = "Not", .elementwise = true, .infer = InferNot};
extern const OpDef kBitwiseNot = {
    .name = "BitwiseNot", .elementwise = true, .infer = InferBitwiseNot};
extern const OpDef kIsInf = {.name = "IsInf", .elementwise = true, .infer = InferFloatTest};
extern const OpDef kIsNaN = {.name = "IsNaN", .elementwise = true, .infer = InferFloatTest};

}  // namespace evoq
