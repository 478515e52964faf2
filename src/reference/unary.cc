// Functions of one value, by element. Their float32 definitions are those of kernels/math/unary.h.
#include <cmath>
#include <limits>

#include "reference/definition.h"
#include "reference/real.h"
#include "reference/util.h"

namespace evoq {
namespace {

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

EvalResult EvaluateNot(const EvalArgs& args) {
  const Tensor& x = args.inputs[0];
  EVOQ_ASSIGN(Tensor y, AllocateOutput(TensorType(DType::kBool, x.shape())));
  uint8_t* out = y.mutable_data<uint8_t>();
  for (int64_t i = 0; i < x.elements(); ++i) out[i] = x.data<uint8_t>()[i] == 0;
  return One(std::move(y));
}

EvalResult EvaluateBitwiseNot(const EvalArgs& args) {
  const Tensor& x = args.inputs[0];
  EVOQ_ASSIGN(Tensor y, AllocateOutput(TensorType(x.dtype(), x.shape())));
  std::byte* out = y.mutable_raw();
  for (size_t i = 0; i < x.bytes(); ++i) out[i] = ~x.raw()[i];
  return One(std::move(y));
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

}  // namespace

namespace reference {

extern const Definition kAbs = {.name = "Abs", .evaluate = EvaluateNumber<UnaryKind::kAbs, kAbsOf>};
extern const Definition kNeg = {.name = "Neg", .evaluate = EvaluateNumber<UnaryKind::kNeg, kNegOf>};
extern const Definition kRelu = {.name = "Relu",
                                 .evaluate = EvaluateNumber<UnaryKind::kRelu, kReluOf>};
extern const Definition kSign = {.name = "Sign",
                                 .evaluate = EvaluateNumber<UnaryKind::kSign, kSignOf>};
extern const Definition kAcos = {.name = "Acos", .evaluate = EvaluateUnary<UnaryKind::kAcos>};
extern const Definition kAcosh = {.name = "Acosh", .evaluate = EvaluateUnary<UnaryKind::kAcosh>};
extern const Definition kAsin = {.name = "Asin", .evaluate = EvaluateUnary<UnaryKind::kAsin>};
extern const Definition kAsinh = {.name = "Asinh", .evaluate = EvaluateUnary<UnaryKind::kAsinh>};
extern const Definition kAtan = {.name = "Atan", .evaluate = EvaluateUnary<UnaryKind::kAtan>};
extern const Definition kAtanh = {.name = "Atanh", .evaluate = EvaluateUnary<UnaryKind::kAtanh>};
extern const Definition kCeil = {.name = "Ceil", .evaluate = EvaluateUnary<UnaryKind::kCeil>};
extern const Definition kCelu = {.name = "Celu", .evaluate = EvaluateUnary<UnaryKind::kCelu>};
extern const Definition kCos = {.name = "Cos", .evaluate = EvaluateUnary<UnaryKind::kCos>};
extern const Definition kCosh = {.name = "Cosh", .evaluate = EvaluateUnary<UnaryKind::kCosh>};
extern const Definition kElu = {.name = "Elu", .evaluate = EvaluateUnary<UnaryKind::kElu>};
extern const Definition kErf = {.name = "Erf", .evaluate = EvaluateUnary<UnaryKind::kErf>};
extern const Definition kExp = {.name = "Exp", .evaluate = EvaluateUnary<UnaryKind::kExp>};
extern const Definition kFloor = {.name = "Floor", .evaluate = EvaluateUnary<UnaryKind::kFloor>};
extern const Definition kLeakyRelu = {.name = "LeakyRelu",
                                      .evaluate = EvaluateUnary<UnaryKind::kLeakyRelu>};
extern const Definition kLog = {.name = "Log", .evaluate = EvaluateUnary<UnaryKind::kLog>};
extern const Definition kReciprocal = {.name = "Reciprocal",
                                       .evaluate = EvaluateUnary<UnaryKind::kReciprocal>};
extern const Definition kRound = {.name = "Round", .evaluate = EvaluateUnary<UnaryKind::kRound>};
extern const Definition kSelu = {.name = "Selu", .evaluate = EvaluateUnary<UnaryKind::kSelu>};
extern const Definition kShrink = {.name = "Shrink", .evaluate = EvaluateUnary<UnaryKind::kShrink>};
extern const Definition kSigmoid = {.name = "Sigmoid",
                                    .evaluate = EvaluateUnary<UnaryKind::kSigmoid>};
extern const Definition kSin = {.name = "Sin", .evaluate = EvaluateUnary<UnaryKind::kSin>};
extern const Definition kSinh = {.name = "Sinh", .evaluate = EvaluateUnary<UnaryKind::kSinh>};
extern const Definition kSoftplus = {.name = "Softplus",
                                     .evaluate = EvaluateUnary<UnaryKind::kSoftplus>};
extern const Definition kSoftsign = {.name = "Softsign",
                                     .evaluate = EvaluateUnary<UnaryKind::kSoftsign>};
extern const Definition kSqrt = {.name = "Sqrt", .evaluate = EvaluateUnary<UnaryKind::kSqrt>};
extern const Definition kTan = {.name = "Tan", .evaluate = EvaluateUnary<UnaryKind::kTan>};
extern const Definition kTanh = {.name = "Tanh", .evaluate = EvaluateUnary<UnaryKind::kTanh>};
extern const Definition kThresholdedRelu = {.name = "ThresholdedRelu",
                                            .evaluate = EvaluateUnary<UnaryKind::kThresholdedRelu>};
extern const Definition kSwish = {.name = "Swish", .evaluate = EvaluateSwish};
extern const Definition kClip = {.name = "Clip", .evaluate = EvaluateClip};
extern const Definition kNot = {.name = "Not", .evaluate = EvaluateNot};
extern const Definition kBitwiseNot = {.name = "BitwiseNot", .evaluate = EvaluateBitwiseNot};
extern const Definition kIsInf = {.name = "IsInf", .evaluate = EvaluateIsInf};
extern const Definition kIsNaN = {.name = "IsNaN", .evaluate = EvaluateIsNaN};

}  // namespace reference
}  // namespace evoq
