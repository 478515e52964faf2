// Arithmetic of two or more values with broadcasting: Sub, Mul, Div, Mod, Pow, PRelu; Max, Min,
// Mean, Sum.
#include <cmath>
#include <limits>

#include "kernels/math/math.h"
#include "reference/arithmetic.h"
#include "reference/definition.h"
#include "reference/integer_pair.h"
#include "reference/util.h"

namespace evoq {
namespace {

template <typename F>
Result<Tensor> Combine(const Tensor& a, const Tensor& b, const F& f) {
  EVOQ_ASSIGN(Tensor y, AllocateBroadcast(a, b, a.dtype()));
  EVOQ_TRY(DispatchNumber(a.dtype(), [&](auto tag) -> Status {
    using T = decltype(tag);
    BroadcastInto<T, T>(a, b, y, f);
    return {};
  }));
  return y;
}

template <typename F>
EvalResult EvaluateBinary(const EvalArgs& args) {
  EVOQ_ASSIGN(Tensor y, Combine(args.inputs[0], args.inputs[1], F()));
  return One(std::move(y));
}

// From the first input to the last: ((a, b), c), ...
template <typename F>
Result<Tensor> Fold(const EvalArgs& args, const F& f) {
  Tensor y = args.inputs[0];
  for (size_t i = 1; i < args.inputs.size(); ++i) {
    EVOQ_ASSIGN(y, Combine(y, args.inputs[i], f));
  }
  return y;
}

template <typename F>
EvalResult EvaluateFold(const EvalArgs& args) {
  EVOQ_ASSIGN(Tensor y, Fold(args, F()));
  return One(std::move(y));
}

// The sum, divided by the number of inputs.
EvalResult EvaluateMean(const EvalArgs& args) {
  EVOQ_ASSIGN(const Tensor sum, Fold(args, AddFn()));
  return DispatchFloat(sum.dtype(), [&](auto tag) -> EvalResult {
    using T = decltype(tag);
    EVOQ_ASSIGN(Tensor y, AllocateOutput(sum.type()));
    const T count = static_cast<T>(args.inputs.size());
    for (int64_t i = 0; i < y.elements(); ++i) y.mutable_data<T>()[i] = sum.data<T>()[i] / count;
    return One(std::move(y));
  });
}

// ---- Mul

EvalResult EvaluateMulQuantized(const EvalArgs& args) {
  EVOQ_TRY(CheckIntegerPair(args));
  const IntegerScale a(args.inputs[0].type()), b(args.inputs[1].type()), y(args.output_types[0]);
  const float m = LinearMultiplier(a.scale, b.scale, y.scale);
  return EvaluateIntegerPair(args, [&](int32_t p, int32_t q) {
    return RoundToInteger(static_cast<float>(static_cast<int64_t>(p - a.zero) * (q - b.zero)) * m,
                          y.zero, y.low, y.high);
  });
}

// ---- Mod

EvalResult EvaluateMod(const EvalArgs& args) {
  return args.node.attrs.Int("fmod") != 0 ? EvaluateBinary<FmodFn>(args)
                                          : EvaluateBinary<ModFn>(args);
}

// ---- Pow: the base's type; the exponent may have another one.

// Wraps around; x^-n is 1, -1 or 0.
int64_t IntegerPower(int64_t base, int64_t exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 != 0 ? -1 : 1) : 0;
  uint64_t result = 1, square = static_cast<uint64_t>(base);
  for (; exponent > 0; exponent /= 2) {
    if (exponent % 2 != 0) result *= square;
    square *= square;
  }
  return static_cast<int64_t>(result);
}

// `x` with elements of type T, cut to T's range where they do not fit.
template <typename T>
Result<Tensor> Converted(const Tensor& x) {
  if (x.dtype() == DTypeOf<T>::value) return x;
  EVOQ_ASSIGN(Tensor y, AllocateOutput(TensorType(DTypeOf<T>::value, x.shape())));
  EVOQ_TRY(DispatchNumber(x.dtype(), [&](auto tag) -> Status {
    using S = decltype(tag);
    for (int64_t i = 0; i < x.elements(); ++i)
      y.mutable_data<T>()[i] = static_cast<T>(x.data<S>()[i]);
    return {};
  }));
  return y;
}

EvalResult EvaluatePow(const EvalArgs& args) {
  const Tensor &base = args.inputs[0], &exponent = args.inputs[1];
  if (base.dtype() == DType::kFloat32) {
    EVOQ_ASSIGN(const Tensor real, Converted<float>(exponent));
    EVOQ_ASSIGN(Tensor y, (BroadcastMap<float, float>(base, real, DType::kFloat32, PowF)));
    return One(std::move(y));
  }
  if (!IsFloat(base.dtype()) && IsInteger(exponent.dtype())) {
    EVOQ_ASSIGN(const Tensor wide_base, Converted<int64_t>(base));
    EVOQ_ASSIGN(const Tensor wide_exponent, Converted<int64_t>(exponent));
    EVOQ_ASSIGN(const Tensor wide, (BroadcastMap<int64_t, int64_t>(wide_base, wide_exponent,
                                                                   DType::kInt64, IntegerPower)));
    EVOQ_ASSIGN(Tensor y, AllocateOutput(TensorType(base.dtype(), wide.shape())));
    EVOQ_TRY(DispatchWidth(base.dtype(), [&](auto tag) -> Status {  // cut to the width of any sign
      using T = decltype(tag);
      for (int64_t i = 0; i < y.elements(); ++i)
        y.mutable_data<T>()[i] = static_cast<T>(wide.data<int64_t>()[i]);
      return {};
    }));
    return One(std::move(y));
  }
  EVOQ_ASSIGN(const Tensor wide_base, Converted<double>(base));
  EVOQ_ASSIGN(const Tensor wide_exponent, Converted<double>(exponent));
  EVOQ_ASSIGN(const Tensor wide,
              (BroadcastMap<double, double>(wide_base, wide_exponent, DType::kFloat64,
                                            [](double x, double y) { return std::pow(x, y); })));
  if (base.dtype() == DType::kFloat64) return One(wide);
  EVOQ_ASSIGN(Tensor y, AllocateOutput(TensorType(base.dtype(), wide.shape())));
  EVOQ_TRY(DispatchInteger(base.dtype(), [&](auto tag) -> Status {
    using T = decltype(tag);
    constexpr double kLow = static_cast<double>(std::numeric_limits<T>::min());
    constexpr double kHigh = static_cast<double>(std::numeric_limits<T>::max());
    for (int64_t i = 0; i < y.elements(); ++i) {
      const double v = wide.data<double>()[i];
      y.mutable_data<T>()[i] = v != v       ? T{0}
                               : v <= kLow  ? std::numeric_limits<T>::min()
                               : v >= kHigh ? std::numeric_limits<T>::max()
                                            : static_cast<T>(v);
    }
    return {};
  }));
  return One(std::move(y));
}

// ---- PRelu: x < 0 ? x * slope : x

struct PReluFn {
  template <typename T>
  T operator()(T x, T slope) const {
    return x < 0 ? MulFn()(x, slope) : x;
  }
};

}  // namespace

namespace reference {

extern const Definition kSub = {.name = "Sub", .evaluate = EvaluateBinary<SubFn>};
extern const Definition kMul = {
    .name = "Mul", .evaluate = EvaluateBinary<MulFn>, .evaluate_quantized = EvaluateMulQuantized};
extern const Definition kDiv = {.name = "Div", .evaluate = EvaluateBinary<DivFn>};
extern const Definition kMax = {.name = "Max", .evaluate = EvaluateFold<MaxFn>};
extern const Definition kMin = {.name = "Min", .evaluate = EvaluateFold<MinFn>};
extern const Definition kSum = {.name = "Sum", .evaluate = EvaluateFold<AddFn>};
extern const Definition kMean = {.name = "Mean", .evaluate = EvaluateMean};
extern const Definition kMod = {.name = "Mod", .evaluate = EvaluateMod};
extern const Definition kPow = {.name = "Pow", .evaluate = EvaluatePow};
extern const Definition kPRelu = {.name = "PRelu", .evaluate = EvaluateBinary<PReluFn>};

}  // namespace reference
}  // namespace evoq
