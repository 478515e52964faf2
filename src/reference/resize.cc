// Resize(x, roi?, scales?, sizes?): nearest, linear and cubic interpolation over any axes.
//
// Axes are interpolated one after the other in ascending order; an axis that keeps its size under
// scale 1 is left alone. Along one axis: y[o] = weight[0] * x[index[0]] + weight[1] * x[index[1]] +
// ... in this order, in float32; coordinates are computed in double, weights rounded to float32
// unless x is float64. Nearest takes one index; its coordinates by given scales are computed in
// float32, as ONNX's reference and ONNX Runtime do: 7 / float32(0.7) is 10 there, in double more.
//
// Integers are resized as float32, 64-bit ones as float64. What linear interpolation gives loses
// its fraction, as ONNX Runtime does it; what leaves the range of x or of its values (cubic,
// antialias) is rounded to nearest even and saturates.
#include "ops/resize.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/definition.h"
#include "reference/util.h"

namespace evoq {
namespace {

// ---- coordinates

// The place in the input that output index o looks at, computed in T.
template <typename T>
T InputPlace(ResizeCoordinates mode, const ResizeAxis& p, int64_t o) {
  const T x = static_cast<T>(o), in = static_cast<T>(p.in), out = static_cast<T>(p.out),
          scale = static_cast<T>(p.scale), half = static_cast<T>(0.5),
          start = static_cast<T>(p.roi_start), end = static_cast<T>(p.roi_end);
  switch (mode) {
    case ResizeCoordinates::kHalfPixel: return (x + half) / scale - half;
    case ResizeCoordinates::kHalfPixelSymmetric:
      return in / 2 * (1 - out / (scale * in)) + (x + half) / scale - half;
    case ResizeCoordinates::kPytorchHalfPixel: return p.out > 1 ? (x + half) / scale - half : 0;
    case ResizeCoordinates::kAlignCorners: return p.out > 1 ? x * (in - 1) / (out - 1) : 0;
    case ResizeCoordinates::kAsymmetric: return x / scale;
    case ResizeCoordinates::kTfCropAndResize:
      return p.out > 1 ? start * (in - 1) + x * (end - start) * (in - 1) / (out - 1)
                       : half * (start + end) * (in - 1);
  }
  return x;
}

// ---- interpolation weights of one axis

// Weight of a sample at distance d: the triangle, or the cubic convolution kernel (Keys 1981).
double KernelAt(const ResizeInterpolation& how, double d) {
  const double x = std::fabs(d), a = how.cubic_a;
  if (!how.cubic) return std::max(0.0, 1 - x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

// For each output index `taps` clamped input indices with their weights.
struct AxisTaps {
  int64_t taps = 1;
  std::vector<int64_t> index;
  std::vector<double> weight;
  std::vector<uint8_t> outside;  // tf_crop_and_resize: the place is not in the input
};

AxisTaps TapsOf(const ResizeInterpolation& how, const ResizeAxis& p) {
  AxisTaps result;
  if (p.out == 0) return result;
  const double stretch = how.antialias ? std::min(p.scale, 1.0) : 1.0;
  const double radius = (how.cubic ? 2 : 1) / stretch;
  const int64_t first = how.nearest ? 0 : static_cast<int64_t>(std::floor(-radius)) + 1;
  result.taps = how.nearest ? 1 : 2 - 2 * first;
  const auto clamped = [&](double at) {
    return static_cast<int64_t>(std::clamp(at, 0.0, static_cast<double>(p.in - 1)));
  };
  for (int64_t o = 0; o < p.out; ++o) {
    const double place = how.nearest && p.given ? InputPlace<float>(how.coordinates, p, o)
                                                : InputPlace<double>(how.coordinates, p, o);
    result.outside.push_back(how.coordinates == ResizeCoordinates::kTfCropAndResize &&
                             (place < 0 || place > static_cast<double>(p.in - 1)));
    if (how.nearest) {
      result.index.push_back(clamped(how.round(place)));
      result.weight.push_back(1);
      continue;
    }
    const double base = std::floor(place);
    std::vector<double> weights(result.taps);
    double sum = 0;
    for (int64_t t = 0; t < result.taps; ++t) {
      const double at = base + static_cast<double>(first + t);
      const bool drop = how.exclude_outside && (at < 0 || at > static_cast<double>(p.in - 1));
      weights[t] = drop ? 0 : KernelAt(how, (at - place) * stretch);
      sum += weights[t];
      result.index.push_back(clamped(at));
    }
    const bool normalize = (how.antialias || how.exclude_outside) && sum != 0;
    for (double w : weights) result.weight.push_back(normalize ? w / sum : w);
  }
  return result;
}

// ---- the operator

// One axis of x, of `in` sizes, through its taps.
template <typename T>
std::vector<T> Interpolated(const std::vector<T>& x, const AxisSplit& split, const AxisTaps& taps,
                            int64_t out) {
  std::vector<T> y(split.outer * out * split.inner);
  for (int64_t o = 0; o < split.outer; ++o) {
    for (int64_t p = 0; p < out; ++p) {
      T* to = y.data() + (o * out + p) * split.inner;
      for (int64_t t = 0; t < taps.taps; ++t) {
        const T* from = x.data() + (o * split.size + taps.index[p * taps.taps + t]) * split.inner;
        [[maybe_unused]] const auto weight =
            static_cast<std::conditional_t<std::is_same_v<T, double>, double, float>>(
                taps.weight[p * taps.taps + t]);
        for (int64_t i = 0; i < split.inner; ++i) {
          if constexpr (std::is_floating_point_v<T>) {
            to[i] = t == 0 ? weight * from[i] : to[i] + weight * from[i];
          } else {
            to[i] = from[i];
          }
        }
      }
    }
  }
  return y;
}

// Resizes elements of type T; integers only by nearest without a crop.
template <typename T>
Tensor Resized(const Tensor& x, const ResizeInterpolation& how,
               const std::vector<ResizeAxis>& plans, T extrapolation) {
  std::vector<int64_t> sizes = x.sizes();
  std::vector<T> values(x.data<T>(), x.data<T>() + x.elements());
  std::vector<AxisTaps> taps;
  for (size_t axis = 0; axis < plans.size(); ++axis) {
    const ResizeAxis& plan = plans[axis];
    taps.push_back({});
    const bool crops = how.coordinates == ResizeCoordinates::kTfCropAndResize &&
                       (plan.roi_start != 0 || plan.roi_end != 1);
    if (plan.in == plan.out && plan.scale == 1 && !crops) continue;
    taps.back() = TapsOf(how, plan);
    values = Interpolated(values, SplitAt(sizes, static_cast<int>(axis)), taps.back(), plan.out);
    sizes[axis] = plan.out;
  }
  Tensor y = Tensor::Allocate(TensorType(x.dtype(), Shape(sizes)));
  std::copy(values.begin(), values.end(), y.mutable_data<T>());
  const std::vector<int64_t> strides = RowMajorStrides(sizes);
  for (size_t axis = 0; axis < taps.size(); ++axis) {
    if (std::find(taps[axis].outside.begin(), taps[axis].outside.end(), 1) ==
        taps[axis].outside.end())
      continue;
    for (int64_t i = 0; i < y.elements(); ++i) {
      if (taps[axis].outside[i / strides[axis] % sizes[axis]])
        y.mutable_data<T>()[i] = extrapolation;
    }
  }
  return y;
}

// Integers of type T through the floating-point type Real.
template <typename Real, typename T>
Tensor ResizedAs(const Tensor& x, const ResizeInterpolation& how,
                 const std::vector<ResizeAxis>& plans, float extrapolation) {
  Tensor real = Tensor::Allocate(
      TensorType(std::is_same_v<Real, double> ? DType::kFloat64 : DType::kFloat32, x.shape()));
  std::copy_n(x.data<T>(), x.elements(), real.mutable_data<Real>());
  real = Resized<Real>(real, how, plans, extrapolation);
  Tensor y = Tensor::Allocate(TensorType(x.dtype(), real.shape()));
  constexpr Real kLow = static_cast<Real>(std::numeric_limits<T>::min()),
                 kHigh = static_cast<Real>(std::numeric_limits<T>::max());
  const bool truncates = !how.cubic && !how.antialias;
  for (int64_t i = 0; i < y.elements(); ++i) {
    const Real v = real.data<Real>()[i], whole = truncates ? std::trunc(v) : std::nearbyint(v);
    y.mutable_data<T>()[i] = whole >= kHigh ? std::numeric_limits<T>::max()
                             : whole > kLow ? static_cast<T>(whole)
                                            : std::numeric_limits<T>::min();
  }
  return y;
}

EvalResult Evaluate(const EvalArgs& args) {
  const Tensor& x = args.inputs[0];
  EVOQ_ASSIGN(const ResizeInterpolation how, ResizeInterpolationOf(args.node));
  const auto input = [&](size_t i) { return args.has(i) ? &args.inputs[i] : nullptr; };
  EVOQ_ASSIGN(const std::vector<ResizeAxis> plans,
              ResizeAxesOf(args.node, x.sizes(), input(1), input(2), input(3)));
  const float extrapolation = args.node.attrs.Float("extrapolation_value", 0);
  if (x.dtype() == DType::kFloat32) return One(Resized<float>(x, how, plans, extrapolation));
  if (x.dtype() == DType::kFloat64) return One(Resized<double>(x, how, plans, extrapolation));
  if (!how.nearest || how.coordinates == ResizeCoordinates::kTfCropAndResize)
    return DispatchInteger(x.dtype(), [&](auto tag) -> EvalResult {
      using T = decltype(tag);
      using Real = std::conditional_t<sizeof(T) == 8, double, float>;
      return One(ResizedAs<Real, T>(x, how, plans, extrapolation));
    });
  return DispatchWidth(x.dtype(), [&](auto tag) -> EvalResult {
    return One(Resized<decltype(tag)>(x, how, plans, 0));
  });
}

}  // namespace

namespace reference {

extern const Definition kResize = {.name = "Resize", .evaluate = Evaluate};

}  // namespace reference
}  // namespace evoq
