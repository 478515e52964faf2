// Functions of one value, by element. Their float32 definitions are those of kernels/math/unary.h.
#include <cmath>
#include <limits>
#include <type_traits>

#include "ops/op.h"
#include "ops/real.h"
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

// y[i] = f(x[i]) for integers.
template <typename F>
EvalResult MapInteger(const Tensor& x, const F& f) {
  return DispatchInteger(x.dtype(), [&](auto tag) -> EvalResult {
    using T = decltype(tag);
    EVOQ_ASSIGN(Tensor y, AllocateOutput(TensorType(x.dtype(), x.shape())));
    const T* in = x.data<T>();
    T* out = y.mutable_data<T>();
    for (int64_t i = 0; i < x.elements(); ++i) out[i] = f(in[i]);
    return One(std::move(y));
  });
}

// Floats by kernels/math/unary.h, integers by F.
template <UnaryKind kKind, auto F>
EvalResult EvaluateNumber(const EvalArgs& args) {
  if (IsInteger(args.inputs[0].dtype())) return MapInteger(args.inputs[0], F);
  return EvaluateUnary<kKind>(args);
}

// Two's complement: the minimum stays itself.
template <typename T>
T Negated(T x) {
  return static_cast<T>(uint64_t{0} - static_cast<uint64_t>(x));
}
constexpr auto kAbsOf = [](auto x) { return x < 0 ? Negated(x) : x; };
constexpr auto kNegOf = [](auto x) { return Negated(x); };
constexpr auto kSignOf = [](auto x) { return static_cast<decltype(x)>((x > 0) - (x < 0)); };
constexpr auto kReluOf = [](auto x) { return x > 0 ? x : decltype(x){0}; };

// ---- Swish: x * sigmoid(alpha x)

EvalResult EvaluateSwish(const EvalArgs& args) {
  const float alpha = args.node.attrs.Float("alpha", 1);
  return MapFloats(args, [alpha](auto x) { return x / (1 + ExpOf(-(alpha * x))); });
}

// ---- Clip(x, min?, max?): min(max(x, min), max); a NaN in x stays, a bound that is NaN bounds
// nothing

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

EvalResult EvaluateClip(const EvalArgs& args) {
  const Tensor& x = args.inputs[0];
  return DispatchNumber(x.dtype(), [&](auto tag) -> EvalResult {
    using T = decltype(tag);
    using Limits = std::numeric_limits<T>;
    T low = Limits::has_infinity ? static_cast<T>(-Limits::infinity()) : Limits::lowest();
    T high = Limits::has_infinity ? Limits::infinity() : Limits::max();
    if (args.has(1)) low = args.inputs[1].data<T>()[0];
    if (args.has(2)) high = args.inputs[2].data<T>()[0];
    EVOQ_ASSIGN(Tensor y, AllocateOutput(TensorType(x.dtype(), x.shape())));
    const T* in = x.data<T>();
    T* out = y.mutable_data<T>();
    for (int64_t i = 0; i < x.elements(); ++i) {
      const T raised = low > in[i] ? low : in[i];  // a NaN stays
      out[i] = high < raised ? high : raised;
    }
    return One(std::move(y));
  });
}

// ---- Not, BitwiseNot, IsNaN, IsInf

InferResult InferNot(const InferArgs& args) {
  EVOQ_TRY(CheckDType(args, 0, std::array{DType::kBool}));
  return SameAsInput0(args);
}

EvalResult EvaluateNot(const EvalArgs& args) {
  const Tensor& x = args.inputs[0];
  EVOQ_ASSIGN(Tensor y, AllocateOutput(TensorType(DType::kBool, x.shape())));
  uint8_t* out = y.mutable_data<uint8_t>();
  for (int64_t i = 0; i < x.elements(); ++i) out[i] = x.data<uint8_t>()[i] == 0;
  return One(std::move(y));
}

InferResult InferBitwiseNot(const InferArgs& args) {
  if (!IsInteger(args.inputs[0].dtype))
    return InvalidInput("input 0 is {}, expected an integer type", DTypeName(args.inputs[0].dtype));
  return SameAsInput0(args);
}

EvalResult EvaluateBitwiseNot(const EvalArgs& args) {
  const Tensor& x = args.inputs[0];
  EVOQ_ASSIGN(Tensor y, AllocateOutput(TensorType(x.dtype(), x.shape())));
  std::byte* out = y.mutable_raw();
  for (size_t i = 0; i < x.bytes(); ++i) out[i] = ~x.raw()[i];
  return One(std::move(y));
}

InferResult InferFloatTest(const InferArgs& args) {
  EVOQ_TRY(CheckFloat(args, 0));
  EVOQ_TRY(IntAttr(args.node, "detect_negative", 1));
  EVOQ_TRY(IntAttr(args.node, "detect_positive", 1));
  return std::vector<TensorType>{TensorType(DType::kBool, args.inputs[0].shape)};
}

template <typename Test>
EvalResult TestFloat(const Tensor& x, const Test& test) {
  return DispatchFloat(x.dtype(), [&](auto tag) -> EvalResult {
    using T = decltype(tag);
    EVOQ_ASSIGN(Tensor y, AllocateOutput(TensorType(DType::kBool, x.shape())));
    bool* out = y.mutable_data<bool>();
    for (int64_t i = 0; i < x.elements(); ++i) out[i] = test(x.data<T>()[i]);
    return One(std::move(y));
  });
}

EvalResult EvaluateIsNaN(const EvalArgs& args) {
  return TestFloat(args.inputs[0], [](auto x) { return x != x; });
}

EvalResult EvaluateIsInf(const EvalArgs& args) {
  const bool negative = args.node.attrs.Int("detect_negative", 1) != 0;
  const bool positive = args.node.attrs.Int("detect_positive", 1) != 0;
  return TestFloat(args.inputs[0],
                   [&](auto x) { return std::isinf(x) && (x > 0 ? positive : negative); });
}

template <UnaryKind kKind>
constexpr OpDef FloatOp(const char* name) {
  return {.name = name,
          .quant = QuantTrait::kTable,
          .elementwise = true,
          .infer = InferFloat,
          .evaluate = EvaluateUnary<kKind>};
}

template <UnaryKind kKind, auto F>
constexpr OpDef NumberOp(const char* name) {
  return {.name = name,
          .quant = QuantTrait::kTable,
          .elementwise = true,
          .infer = InferNumber,
          .evaluate = EvaluateNumber<kKind, F>};
}

}  // namespace

extern const OpDef kAbs = NumberOp<UnaryKind::kAbs, kAbsOf>("Abs");
extern const OpDef kNeg = NumberOp<UnaryKind::kNeg, kNegOf>("Neg");
extern const OpDef kRelu = NumberOp<UnaryKind::kRelu, kReluOf>("Relu");
extern const OpDef kSign = NumberOp<UnaryKind::kSign, kSignOf>("Sign");

extern const OpDef kAcos = FloatOp<UnaryKind::kAcos>("Acos");
extern const OpDef kAcosh = FloatOp<UnaryKind::kAcosh>("Acosh");
extern const OpDef kAsin = FloatOp<UnaryKind::kAsin>("Asin");
extern const OpDef kAsinh = FloatOp<UnaryKind::kAsinh>("Asinh");
extern const OpDef kAtan = FloatOp<UnaryKind::kAtan>("Atan");
extern const OpDef kAtanh = FloatOp<UnaryKind::kAtanh>("Atanh");
extern const OpDef kCeil = FloatOp<UnaryKind::kCeil>("Ceil");
extern const OpDef kCelu = FloatOp<UnaryKind::kCelu>("Celu");
extern const OpDef kCos = FloatOp<UnaryKind::kCos>("Cos");
extern const OpDef kCosh = FloatOp<UnaryKind::kCosh>("Cosh");
extern const OpDef kElu = FloatOp<UnaryKind::kElu>("Elu");
extern const OpDef kErf = FloatOp<UnaryKind::kErf>("Erf");
extern const OpDef kExp = FloatOp<UnaryKind::kExp>("Exp");
extern const OpDef kFloor = FloatOp<UnaryKind::kFloor>("Floor");
extern const OpDef kLeakyRelu = FloatOp<UnaryKind::kLeakyRelu>("LeakyRelu");
extern const OpDef kLog = FloatOp<UnaryKind::kLog>("Log");
extern const OpDef kReciprocal = FloatOp<UnaryKind::kReciprocal>("Reciprocal");
extern const OpDef kRound = FloatOp<UnaryKind::kRound>("Round");
extern const OpDef kSelu = FloatOp<UnaryKind::kSelu>("Selu");
extern const OpDef kShrink = FloatOp<UnaryKind::kShrink>("Shrink");
extern const OpDef kSigmoid = FloatOp<UnaryKind::kSigmoid>("Sigmoid");
extern const OpDef kSin = FloatOp<UnaryKind::kSin>("Sin");
extern const OpDef kSinh = FloatOp<UnaryKind::kSinh>("Sinh");
extern const OpDef kSoftplus = FloatOp<UnaryKind::kSoftplus>("Softplus");
extern const OpDef kSoftsign = FloatOp<UnaryKind::kSoftsign>("Softsign");
extern const OpDef kSqrt = FloatOp<UnaryKind::kSqrt>("Sqrt");
extern const OpDef kTan = FloatOp<UnaryKind::kTan>("Tan");
extern const OpDef kTanh = FloatOp<UnaryKind::kTanh>("Tanh");
extern const OpDef kThresholdedRelu = FloatOp<UnaryKind::kThresholdedRelu>("ThresholdedRelu");

extern const OpDef kSwish = {.name = "Swish",
                             .quant = QuantTrait::kTable,
                             .elementwise = true,
                             .infer = InferFloat,
                             .evaluate = EvaluateSwish};
extern const OpDef kClip = {.name = "Clip",
                            .max_inputs = 3,
                            .quant = QuantTrait::kTable,
                            .elementwise = true,
                            .infer = InferClip,
                            .evaluate = EvaluateClip,
                            .roles = {Role::kData, Role::kBound, Role::kBound}};
extern const OpDef kNot = {
    .name = "Not", .elementwise = true, .infer = InferNot, .evaluate = EvaluateNot};
extern const OpDef kBitwiseNot = {.name = "BitwiseNot",
                                  .elementwise = true,
                                  .infer = InferBitwiseNot,
                                  .evaluate = EvaluateBitwiseNot};
extern const OpDef kIsInf = {
    .name = "IsInf", .elementwise = true, .infer = InferFloatTest, .evaluate = EvaluateIsInf};
extern const OpDef kIsNaN = {
    .name = "IsNaN", .elementwise = true, .infer = InferFloatTest, .evaluate = EvaluateIsNaN};

}  // namespace evoq
