// The functions that definitions are made of, for float32 and for float64: float32 by kernels/math
// (the same bits on every machine), float64 by the C library. Definitions that are templates over
// the element type call these.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <span>

#include "kernels/math/math.h"
#include "kernels/math/unary.h"
#include "reference/util.h"

namespace evoq {

// kernels/math/unary.h's operators in float64, by the formulas that ONNX gives.
double Apply(const Unary& unary, double x);

// y[i] = f(x[i]) for float32 and float64.
template <typename F>
EvalResult MapFloats(const EvalArgs& args, const F& f) {
  const Tensor& x = args.inputs[0];
  return DispatchFloat(x.dtype(), [&](auto tag) -> EvalResult {
    using T = decltype(tag);
    Tensor y = Tensor::Allocate(TensorType(x.dtype(), x.shape()));
    const T* in = x.data<T>();
    T* out = y.mutable_data<T>();
    for (int64_t i = 0; i < x.elements(); ++i) out[i] = f(in[i]);
    return One(std::move(y));
  });
}

// body(T{}) where every input that is there, but for those named in `others` (indices, lengths,
// masks), has the element type T of input 0, float32 or float64; kUnsupported for others.
template <typename Body>
EvalResult EvaluateAsFloats(const EvalArgs& args, const Body& body,
                            std::initializer_list<size_t> others = {}) {
  const DType dtype = args.inputs[0].dtype();
  for (size_t i = 0; i < args.inputs.size(); ++i) {
    const Tensor& tensor = args.inputs[i];
    if (!tensor.defined() || std::find(others.begin(), others.end(), i) != others.end()) continue;
    if (tensor.dtype() != dtype)
      return Unsupported("{} input beside {}", DTypeName(tensor.dtype()), DTypeName(dtype));
  }
  return DispatchFloat(dtype, body);
}

// The operator `kKind` of an operator's input 0, alpha and beta from its attributes.
template <UnaryKind kKind>
EvalResult EvaluateUnary(const EvalArgs& args) {
  const Unary unary = UnaryFromAttrs(kKind, args.node.attrs);
  return MapFloats(args, [&](auto x) { return Apply(unary, x); });
}

inline float ExpOf(float x) { return ExpF(x); }
inline double ExpOf(double x) { return std::exp(x); }
inline float LogOf(float x) { return LogF(x); }
inline double LogOf(double x) { return std::log(x); }
inline float PowOf(float x, float y) { return PowF(x, y); }
inline double PowOf(double x, double y) { return std::pow(x, y); }
inline float TanhOf(float x) { return TanhF(x); }
inline double TanhOf(double x) { return std::tanh(x); }
inline float SigmoidOf(float x) { return SigmoidF(x); }
inline double SigmoidOf(double x) { return 1 / (1 + std::exp(-x)); }
inline float SiluOf(float x) { return SiluF(x); }
inline double SiluOf(double x) { return x / (1 + std::exp(-x)); }

// SumF's order for float32; for float64 that of the index.
inline float SumOf(const float* x, int64_t n) { return SumF(x, n); }
inline double SumOf(const double* x, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += x[i];
  return sum;
}
// The sum of (x[i] - mean)^2, likewise.
inline float SumSquaresOf(const float* x, int64_t n, float mean) { return SumSquaresF(x, n, mean); }
inline double SumSquaresOf(const double* x, int64_t n, double mean) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += (x[i] - mean) * (x[i] - mean);
  return sum;
}
// The sum of values along one axis: SumOf when they are contiguous in memory, else sequential from
// 0.
template <typename T>
T SumAlong(std::span<const T> values, bool contiguous) {
  if (contiguous) return SumOf(values.data(), static_cast<int64_t>(values.size()));
  T sum = 0;
  for (T v : values) sum += v;
  return sum;
}

// The largest element; NaNs are skipped.
inline float LargestOf(const float* x, int64_t n) { return MaxF(x, n); }
inline double LargestOf(const double* x, int64_t n) {
  double largest = -HUGE_VAL;
  for (int64_t i = 0; i < n; ++i) largest = x[i] > largest ? x[i] : largest;
  return largest;
}

}  // namespace evoq
