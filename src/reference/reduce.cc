// Reductions: y = f over the elements along `axes` (all axes by default).
//
// The order of float32 sums: neighbouring axes that are all reduced count as one. When the last
// axis is reduced, each of its rows is summed by SumF (kernels/math/math.h); rows and other axes
// are added in index order, starting from 0.
#include "ops/reduce.h"

#include <cmath>
#include <limits>

#include "kernels/requant.h"
#include "reference/arithmetic.h"
#include "reference/definition.h"
#include "reference/real.h"
#include "reference/util.h"

namespace evoq {
namespace {

// The input as rows: `row` trailing elements that are all reduced into one output or all kept.
// Output offset of row i: sum of index * stride over `outer`.
struct Plan {
  std::vector<int64_t> outer, strides;
  int64_t row = 1;
  bool row_reduced = false;
  int64_t count = 1;  // input elements per output
  TensorType type;    // of the output
};

Result<Plan> MakePlan(const EvalArgs& args) {
  EVOQ_ASSIGN(const std::vector<TensorType> types, InferFromValues(args));
  const Tensor& x = args.inputs[0];
  std::vector<int64_t> axes;
  if (args.has(1)) {
    EVOQ_ASSIGN(axes, ToInt64s(args.inputs[1]));
  }
  EVOQ_ASSIGN(const std::vector<bool> reduced, ReducedAxes(args.node, &axes, x.shape().rank()));
  Plan plan;
  plan.type = types[0];
  plan.outer = x.sizes();
  plan.strides.assign(plan.outer.size(), 0);
  int64_t stride = 1;
  for (size_t i = plan.outer.size(); i-- > 0;) {
    if (reduced[i]) {
      plan.count *= plan.outer[i];
    } else {
      plan.strides[i] = stride;
      stride *= plan.outer[i];
    }
  }
  plan.row_reduced = !reduced.empty() && reduced.back();
  while (!plan.outer.empty() &&
         (plan.outer.back() == 1 || reduced[plan.outer.size() - 1] == plan.row_reduced)) {
    plan.row *= plan.outer.back();
    plan.outer.pop_back();
    plan.strides.pop_back();
  }
  return plan;
}

// acc[output] = combine(acc[output], x[element]) in index order; rows that are reduced go through
// row(x, n) first.
template <typename T, typename Row, typename Combine>
void Walk(const Plan& plan, const T* x, T* acc, const Row& row, const Combine& combine) {
  ForEachIndex<1>(plan.outer, {plan.strides}, [&](int64_t i, const auto& at) {
    const T* in = x + i * plan.row;
    T* out = acc + at[0];
    if (plan.row_reduced) {
      *out = combine(*out, row(in, plan.row));
    } else {
      for (int64_t k = 0; k < plan.row; ++k) out[k] = combine(out[k], in[k]);
    }
  });
}

template <typename T>
void SumInto(const Plan& plan, const T* x, T* acc) {
  const auto row = [](const T* p, int64_t n) {
    if constexpr (std::is_same_v<T, float>) {
      return SumF(p, n);
    } else {
      T sum = 0;
      for (int64_t i = 0; i < n; ++i) sum = AddFn()(sum, p[i]);
      return sum;
    }
  };
  Walk(plan, x, acc, row, AddFn());
}

// m = better(x, m) ? x : m from `start`.
template <typename T, typename Better>
void ExtremeInto(const Plan& plan, const T* x, T* acc, T start, const Better& better) {
  const auto pick = [&](T m, T v) { return better(v, m) ? v : m; };
  const auto row = [&](const T* p, int64_t n) {
    T m = start;
    for (int64_t i = 0; i < n; ++i) m = pick(m, p[i]);
    return m;
  };
  Walk(plan, x, acc, row, pick);
}

template <typename T>
T Lowest() {
  return std::numeric_limits<T>::has_infinity ? static_cast<T>(-std::numeric_limits<T>::infinity())
                                              : std::numeric_limits<T>::lowest();
}
template <typename T>
T Highest() {
  return std::numeric_limits<T>::has_infinity ? std::numeric_limits<T>::infinity()
                                              : std::numeric_limits<T>::max();
}

// A NaN is better than any number, so that it stays.
constexpr auto kGreaterOf = [](auto a, auto b) { return a > b || IsNan(a); };
constexpr auto kLessOf = [](auto a, auto b) { return a < b || IsNan(a); };

template <bool kMaximum>
EvalResult EvaluateExtreme(const EvalArgs& args) {
  const Tensor& x = args.inputs[0];
  EVOQ_ASSIGN(const Plan plan, MakePlan(args));
  return DispatchElement(x.dtype(), [&](auto tag) -> EvalResult {
    using T = decltype(tag);
    EVOQ_ASSIGN(Tensor y, AllocateOutput(plan.type));
    T* out = y.mutable_data<T>();
    const T start = kMaximum ? Lowest<T>() : Highest<T>();
    for (int64_t i = 0; i < y.elements(); ++i) out[i] = start;
    if constexpr (kMaximum)
      ExtremeInto(plan, x.data<T>(), out, start, kGreaterOf);
    else
      ExtremeInto(plan, x.data<T>(), out, start, kLessOf);
    if constexpr (std::is_floating_point_v<T>) {
      for (int64_t i = 0; i < y.elements(); ++i) out[i] += 0;  // a zero is positive
    }
    return One(std::move(y));
  });
}

// y = after(sum of before(x), elements per output), both by element.
template <typename Before, typename After>
EvalResult EvaluateSumOf(const EvalArgs& args, const Before& before, const After& after) {
  const Tensor& x = args.inputs[0];
  EVOQ_ASSIGN(const Plan plan, MakePlan(args));
  return DispatchNumber(x.dtype(), [&](auto tag) -> EvalResult {
    using T = decltype(tag);
    EVOQ_ASSIGN(Tensor y, AllocateOutput(plan.type));
    EVOQ_ASSIGN(Tensor terms, AllocateOutput(TensorType(x.dtype(), x.shape())));
    for (int64_t i = 0; i < x.elements(); ++i) terms.mutable_data<T>()[i] = before(x.data<T>()[i]);
    T* out = y.mutable_data<T>();
    SumInto(plan, terms.data<T>(), out);
    for (int64_t i = 0; i < y.elements(); ++i) out[i] = after(out[i], plan.count);
    return One(std::move(y));
  });
}

constexpr auto kSame = [](auto x, auto...) { return x; };
constexpr auto kSquare = [](auto x) { return MulFn()(x, x); };
constexpr auto kMagnitude = [](auto x) { return x < 0 ? SubFn()(decltype(x){0}, x) : x; };
constexpr auto kMeanOf = [](auto sum, int64_t count) {
  using T = decltype(sum);
  if constexpr (std::is_integral_v<T>)
    return count == 0 ? T{0} : static_cast<T>(sum / static_cast<int64_t>(count));
  else
    return sum / static_cast<T>(count);
};
// A wrapped-around integer sum may be negative: 0.
constexpr auto kRootOf = [](auto sum, int64_t) {
  using T = decltype(sum);
  if constexpr (std::is_integral_v<T>)
    return sum > 0 ? static_cast<T>(std::sqrt(static_cast<double>(sum))) : T{0};
  else
    return std::sqrt(sum);
};

EvalResult EvaluateSum(const EvalArgs& args) { return EvaluateSumOf(args, kSame, kSame); }
EvalResult EvaluateMean(const EvalArgs& args) { return EvaluateSumOf(args, kSame, kMeanOf); }
EvalResult EvaluateL1(const EvalArgs& args) { return EvaluateSumOf(args, kMagnitude, kSame); }
EvalResult EvaluateL2(const EvalArgs& args) { return EvaluateSumOf(args, kSquare, kRootOf); }
EvalResult EvaluateSumSquare(const EvalArgs& args) { return EvaluateSumOf(args, kSquare, kSame); }

// An integer's logarithm, rounded towards 0; of what has none the least integer.
template <typename T>
T WholeLog(double sum) {
  return sum > 0 ? static_cast<T>(std::log(sum)) : Lowest<T>();
}

// Of integers: the logarithm of the sum, wrapped around as ReduceSum's.
EvalResult EvaluateWholeLogSum(const EvalArgs& args) {
  return EvaluateSumOf(args, kSame, [](auto sum, int64_t) {
    using T = decltype(sum);
    if constexpr (std::is_integral_v<T>)
      return WholeLog<T>(static_cast<double>(sum));
    else
      return LogOf(sum);
  });
}

EvalResult EvaluateLogSum(const EvalArgs& args) {
  if (IsInteger(args.inputs[0].dtype())) return EvaluateWholeLogSum(args);
  EVOQ_ASSIGN(const Plan plan, MakePlan(args));
  return DispatchFloat(args.inputs[0].dtype(), [&](auto tag) -> EvalResult {
    using T = decltype(tag);
    EVOQ_ASSIGN(Tensor y, AllocateOutput(plan.type));
    T* out = y.mutable_data<T>();
    SumInto(plan, args.inputs[0].data<T>(), out);
    for (int64_t i = 0; i < y.elements(); ++i) out[i] = LogOf(out[i]);
    return One(std::move(y));
  });
}

// Of integers: log(sum exp(x - m)) + m in float64, rounded towards 0.
EvalResult EvaluateWholeLogSumExp(const EvalArgs& args) {
  const Tensor& x = args.inputs[0];
  EVOQ_ASSIGN(const Plan plan, MakePlan(args));
  return DispatchNumber(x.dtype(), [&](auto tag) -> EvalResult {
    using T = decltype(tag);
    if constexpr (!std::is_integral_v<T>) {
      return Unsupported("{}", x.type().ToString());
    } else {
      EVOQ_ASSIGN(Tensor y, AllocateOutput(plan.type));
      std::vector<T> largest(y.elements(), Lowest<T>());
      ExtremeInto(plan, x.data<T>(), largest.data(), Lowest<T>(), kGreaterOf);
      std::vector<double> sums(y.elements(), 0);
      ForEachIndex<1>(plan.outer, {plan.strides}, [&](int64_t i, const auto& at) {
        for (int64_t k = 0; k < plan.row; ++k) {
          const int64_t to = at[0] + (plan.row_reduced ? 0 : k);
          sums[to] += std::exp(static_cast<double>(x.data<T>()[i * plan.row + k]) -
                               static_cast<double>(largest[to]));
        }
      });
      for (int64_t i = 0; i < y.elements(); ++i) {
        const double log = std::log(sums[i]) + static_cast<double>(largest[i]);
        y.mutable_data<T>()[i] = plan.count == 0                            ? Lowest<T>()
                                 : log >= static_cast<double>(Highest<T>()) ? Highest<T>()
                                                                            : static_cast<T>(log);
      }
      return One(std::move(y));
    }
  });
}

// log(sum exp(x - m)) + m with m the largest element (0 when it is not finite).
EvalResult EvaluateLogSumExp(const EvalArgs& args) {
  const Tensor& x = args.inputs[0];
  if (IsInteger(x.dtype())) return EvaluateWholeLogSumExp(args);
  EVOQ_ASSIGN(const Plan plan, MakePlan(args));
  return DispatchFloat(x.dtype(), [&](auto tag) -> EvalResult {
    using T = decltype(tag);
    EVOQ_ASSIGN(Tensor y, AllocateOutput(plan.type));
    T* out = y.mutable_data<T>();
    std::vector<T> largest(y.elements(), Lowest<T>());
    ExtremeInto(plan, x.data<T>(), largest.data(), Lowest<T>(), kGreaterOf);
    for (T& m : largest) m = std::isfinite(m) ? m : 0;
    EVOQ_ASSIGN(Tensor terms, AllocateOutput(TensorType(x.dtype(), x.shape())));
    T* term = terms.mutable_data<T>();
    ForEachIndex<1>(plan.outer, {plan.strides}, [&](int64_t i, const auto& at) {
      for (int64_t k = 0; k < plan.row; ++k) {
        const int64_t e = i * plan.row + k;
        term[e] = ExpOf(x.data<T>()[e] - largest[at[0] + (plan.row_reduced ? 0 : k)]);
      }
    });
    SumInto(plan, terms.data<T>(), out);
    for (int64_t i = 0; i < y.elements(); ++i) out[i] = LogOf(out[i]) + largest[i];
    return One(std::move(y));
  });
}

EvalResult EvaluateProd(const EvalArgs& args) {
  const Tensor& x = args.inputs[0];
  EVOQ_ASSIGN(const Plan plan, MakePlan(args));
  return DispatchNumber(x.dtype(), [&](auto tag) -> EvalResult {
    using T = decltype(tag);
    EVOQ_ASSIGN(Tensor y, AllocateOutput(plan.type));
    T* out = y.mutable_data<T>();
    for (int64_t i = 0; i < y.elements(); ++i) out[i] = 1;
    const auto row = [](const T* p, int64_t n) {
      T product = 1;
      for (int64_t i = 0; i < n; ++i) product = MulFn()(product, p[i]);
      return product;
    };
    Walk(plan, x.data<T>(), out, row, MulFn());
    return One(std::move(y));
  });
}

// The average of kernels/requant.h.
EvalResult EvaluateQuantizedMean(const EvalArgs& args) {
  const Tensor& x = args.inputs[0];
  const TensorType& out = args.output_types[0];
  const auto fits = [](const TensorType& t) {
    return t.quantized() && t.quant->per_tensor() &&
           (DTypeBits(t.dtype) == 8 || DTypeBits(t.dtype) == 16);
  };
  EVOQ_ASSIGN(const Plan plan, MakePlan(args));
  if (!fits(x.type()) || !fits(out) || plan.count == 0)
    return Unsupported("mean of {} to {}", x.type().ToString(), out.ToString());
  EVOQ_ASSIGN(const std::vector<int64_t> values,
              ToInt64s(x.WithType(TensorType(x.dtype(), x.shape()))));
  std::vector<int64_t> sums(*plan.type.shape.elements(), 0);
  SumInto(plan, values.data(), sums.data());
  const QuantParams &qx = *x.type().quant, &qy = *out.quant;
  const float multiplier =
      static_cast<float>(static_cast<double>(qx.scales[0]) /
                         (static_cast<double>(qy.scales[0]) * static_cast<double>(plan.count)));
  const int32_t low = static_cast<int32_t>(IntegerMin(out.dtype)),
                high = static_cast<int32_t>(IntegerMax(out.dtype));
  const TensorType type(out.dtype, plan.type.shape, qy);
  return DispatchInteger(out.dtype, [&](auto tag) -> EvalResult {
    using T = decltype(tag);
    EVOQ_ASSIGN(Tensor y, AllocateOutput(type));
    for (size_t i = 0; i < sums.size(); ++i) {
      const float v = static_cast<float>(sums[i] - plan.count * qx.zero_points[0]) * multiplier;
      y.mutable_data<T>()[i] = static_cast<T>(RoundToInteger(v, qy.zero_points[0], low, high));
    }
    return One(std::move(y));
  });
}

}  // namespace

namespace reference {

extern const Definition kReduceL1 = {.name = "ReduceL1", .evaluate = EvaluateL1};
extern const Definition kReduceL2 = {.name = "ReduceL2", .evaluate = EvaluateL2};
extern const Definition kReduceLogSum = {.name = "ReduceLogSum", .evaluate = EvaluateLogSum};
extern const Definition kReduceLogSumExp = {.name = "ReduceLogSumExp",
                                            .evaluate = EvaluateLogSumExp};
extern const Definition kReduceMax = {.name = "ReduceMax", .evaluate = EvaluateExtreme<true>};
extern const Definition kReduceMin = {.name = "ReduceMin", .evaluate = EvaluateExtreme<false>};
extern const Definition kReduceProd = {.name = "ReduceProd", .evaluate = EvaluateProd};
extern const Definition kReduceSum = {.name = "ReduceSum", .evaluate = EvaluateSum};
extern const Definition kReduceSumSquare = {.name = "ReduceSumSquare",
                                            .evaluate = EvaluateSumSquare};
extern const Definition kReduceMean = {
    .name = "ReduceMean", .evaluate = EvaluateMean, .evaluate_quantized = EvaluateQuantizedMean};

}  // namespace reference
}  // namespace evoq
