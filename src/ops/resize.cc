// Resize(x, roi?, scales?, sizes?): nearest, linear and cubic interpolation over any axes.
//
// Axes are interpolated one after the other in ascending order; an axis that keeps its size under
// scale 1 is left alone. Along one axis: y[o] = weight[0] * x[index[0]] + weight[1] * x[index[1]] +
// ... in this order, in float32; coordinates are computed in double, weights rounded to float32
// unless x is float64. Nearest takes one index.
#include <algorithm>
#include <cmath>

#include "base/math.h"
#include "ops/util.h"

namespace evoq {
namespace {

// What happens to one axis.
struct AxisPlan {
  int64_t in = 0, out = 0;
  double scale = 1;  // as given, or out / in
  double roi_start = 0, roi_end = 1;
};

Result<std::vector<float>> FloatsOf(const Tensor& tensor) {
  EVOQ_ASSIGN(const Tensor real, ToFloat32(tensor));
  return std::vector<float>(real.data<float>(), real.data<float>() + real.elements());
}

// The axes that scales and sizes speak of: the attribute axes, else all.
Result<std::vector<int>> ResizedAxes(const Node& node, int rank) {
  EVOQ_ASSIGN(const std::vector<int64_t> named, IntsAttr(node, "axes"));
  if (!named.empty()) return NormalizeAxes(named, rank);
  std::vector<int> all(rank);
  for (int i = 0; i < rank; ++i) all[i] = i;
  return all;
}

Status ApplyScales(const std::vector<float>& scales, const std::vector<int>& axes,
                   std::vector<AxisPlan>& plans) {
  if (scales.size() != axes.size())
    return InvalidInput("input 2 has {} scales, expected {}", scales.size(), axes.size());
  for (size_t i = 0; i < axes.size(); ++i) {
    AxisPlan& plan = plans[axes[i]];
    if (!std::isfinite(scales[i]) || scales[i] <= 0)
      return InvalidInput("input 2 has the scale {}, expected more than 0", scales[i]);
    const float out = std::floor(static_cast<float>(plan.in) * scales[i]);
    if (out > 0x1p40f) return Fail(ErrorCode::kTooLarge, "size {} times {}", plan.in, scales[i]);
    plan.out = static_cast<int64_t>(out);
    plan.scale = scales[i];
  }
  return {};
}

Status ApplySizes(const Node& node, const std::vector<int64_t>& sizes, const std::vector<int>& axes,
                  std::vector<AxisPlan>& plans) {
  if (sizes.size() != axes.size())
    return InvalidInput("input 3 has {} sizes, expected {}", sizes.size(), axes.size());
  const std::string policy = node.attrs.String("keep_aspect_ratio_policy", "stretch");
  if (policy != "stretch" && policy != "not_larger" && policy != "not_smaller")
    return InvalidInput(
        "attribute keep_aspect_ratio_policy is '{}', expected stretch, not_larger or not_smaller",
        policy);
  double common = 0;
  for (size_t i = 0; i < axes.size(); ++i) {
    AxisPlan& plan = plans[axes[i]];
    if (sizes[i] < 0 || sizes[i] > int64_t{1} << 40)
      return InvalidInput("input 3 has the size {}", sizes[i]);
    if (plan.in == 0 && sizes[i] > 0)
      return InvalidInput("cannot resize an axis of size 0 to {}", sizes[i]);
    plan.out = sizes[i];
    plan.scale = plan.in == 0 ? 1 : static_cast<double>(plan.out) / static_cast<double>(plan.in);
    common = i == 0                   ? plan.scale
             : policy == "not_larger" ? std::min(common, plan.scale)
                                      : std::max(common, plan.scale);
  }
  if (policy == "stretch") return {};
  for (int axis : axes) {
    plans[axis].scale = common;
    plans[axis].out =
        static_cast<int64_t>(std::floor(common * static_cast<double>(plans[axis].in) + 0.5));
  }
  return {};
}

bool IsEmpty(const Tensor* tensor) { return tensor == nullptr || tensor->elements() == 0; }

// One plan per axis of an input of these sizes. Null or empty tensors are omitted inputs.
Result<std::vector<AxisPlan>> PlansOf(const Node& node, const std::vector<int64_t>& in,
                                      const Tensor* roi, const Tensor* scales,
                                      const Tensor* sizes) {
  std::vector<AxisPlan> plans(in.size());
  for (size_t i = 0; i < in.size(); ++i) plans[i].in = plans[i].out = in[i];
  EVOQ_ASSIGN(const std::vector<int> axes, ResizedAxes(node, static_cast<int>(in.size())));
  if (IsEmpty(scales) == IsEmpty(sizes))
    return InvalidInput("expected either scales (input 2) or sizes (input 3)");
  if (!IsEmpty(scales)) {
    EVOQ_ASSIGN(const std::vector<float> values, FloatsOf(*scales));
    EVOQ_TRY(ApplyScales(values, axes, plans));
  } else {
    EVOQ_ASSIGN(const std::vector<int64_t> values, ToInt64s(*sizes));
    EVOQ_TRY(ApplySizes(node, values, axes, plans));
  }
  if (node.attrs.String("coordinate_transformation_mode") != "tf_crop_and_resize") return plans;
  if (IsEmpty(roi)) return InvalidInput("tf_crop_and_resize needs roi (input 1)");
  EVOQ_ASSIGN(const std::vector<float> values, FloatsOf(*roi));
  if (values.size() != 2 * axes.size())
    return InvalidInput("input 1 has {} values, expected {}", values.size(), 2 * axes.size());
  for (size_t i = 0; i < axes.size(); ++i) {
    if (!std::isfinite(values[i]) || !std::isfinite(values[axes.size() + i]))
      return InvalidInput("input 1 has a value that is not finite");
    plans[axes[i]].roi_start = values[i];
    plans[axes[i]].roi_end = values[axes.size() + i];
  }
  return plans;
}

// ---- coordinates

enum class Coordinates {
  kHalfPixel,
  kHalfPixelSymmetric,
  kPytorchHalfPixel,
  kAlignCorners,
  kAsymmetric,
  kTfCropAndResize
};

Result<Coordinates> CoordinatesOf(const Node& node) {
  const std::string name = node.attrs.String("coordinate_transformation_mode", "half_pixel");
  if (name == "half_pixel") return Coordinates::kHalfPixel;
  if (name == "half_pixel_symmetric") return Coordinates::kHalfPixelSymmetric;
  if (name == "pytorch_half_pixel") return Coordinates::kPytorchHalfPixel;
  if (name == "align_corners") return Coordinates::kAlignCorners;
  if (name == "asymmetric") return Coordinates::kAsymmetric;
  if (name == "tf_crop_and_resize") return Coordinates::kTfCropAndResize;
  return InvalidInput("attribute coordinate_transformation_mode is '{}', which ONNX does not have",
                      name);
}

// The place in the input that output index o looks at.
double InputPlace(Coordinates mode, const AxisPlan& p, int64_t o) {
  const double x = static_cast<double>(o), in = static_cast<double>(p.in),
               out = static_cast<double>(p.out);
  switch (mode) {
    case Coordinates::kHalfPixel: return (x + 0.5) / p.scale - 0.5;
    case Coordinates::kHalfPixelSymmetric:
      return in / 2 * (1 - out / (p.scale * in)) + (x + 0.5) / p.scale - 0.5;
    case Coordinates::kPytorchHalfPixel: return p.out > 1 ? (x + 0.5) / p.scale - 0.5 : 0;
    case Coordinates::kAlignCorners: return p.out > 1 ? x * (in - 1) / (out - 1) : 0;
    case Coordinates::kAsymmetric: return x / p.scale;
    case Coordinates::kTfCropAndResize:
      return p.out > 1
                 ? p.roi_start * (in - 1) + x * (p.roi_end - p.roi_start) * (in - 1) / (out - 1)
                 : 0.5 * (p.roi_start + p.roi_end) * (in - 1);
  }
  return x;
}

using NearestMode = double (*)(double);

Result<NearestMode> NearestModeOf(const Node& node) {
  const std::string name = node.attrs.String("nearest_mode", "round_prefer_floor");
  if (name == "round_prefer_floor") return NearestMode([](double x) { return std::ceil(x - 0.5); });
  if (name == "round_prefer_ceil") return NearestMode([](double x) { return std::floor(x + 0.5); });
  if (name == "floor") return NearestMode([](double x) { return std::floor(x); });
  if (name == "ceil") return NearestMode([](double x) { return std::ceil(x); });
  return InvalidInput("attribute nearest_mode is '{}', which ONNX does not have", name);
}

// ---- interpolation weights of one axis

struct Interpolation {
  bool nearest = false, cubic = false, antialias = false, exclude_outside = false;
  double cubic_a = -0.75;
  Coordinates coordinates = Coordinates::kHalfPixel;
  NearestMode round = nullptr;
};

Result<Interpolation> InterpolationOf(const Node& node) {
  Interpolation result;
  const std::string mode = node.attrs.String("mode", "nearest");
  if (mode != "nearest" && mode != "linear" && mode != "cubic")
    return InvalidInput("attribute mode is '{}', expected nearest, linear or cubic", mode);
  result.nearest = mode == "nearest";
  result.cubic = mode == "cubic";
  result.antialias = node.attrs.Int("antialias") != 0;
  result.exclude_outside = node.attrs.Int("exclude_outside") != 0;
  result.cubic_a = node.attrs.Float("cubic_coeff_a", -0.75f);
  EVOQ_ASSIGN(result.coordinates, CoordinatesOf(node));
  EVOQ_ASSIGN(result.round, NearestModeOf(node));
  return result;
}

// Weight of a sample at distance d: the triangle, or the cubic convolution kernel (Keys 1981).
double KernelAt(const Interpolation& how, double d) {
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

AxisTaps TapsOf(const Interpolation& how, const AxisPlan& p) {
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
    const double place = InputPlace(how.coordinates, p, o);
    result.outside.push_back(how.coordinates == Coordinates::kTfCropAndResize &&
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

InferResult Infer(const InferArgs& args) {
  const TensorType& x = args.inputs[0];
  EVOQ_TRY(InterpolationOf(args.node));
  if (!x.shape.ranked()) return std::vector<TensorType>{x};
  const bool known = (!args.has(2) || args.constant(2)) && (!args.has(3) || args.constant(3)) &&
                     (!args.has(1) || args.constant(1));
  Shape shape = x.shape;
  if (!known)
    return std::vector<TensorType>{TensorType(x.dtype, Shape(std::vector<Dim>(shape.rank())))};
  // Unknown sizes are planned as 1; what depends on them stays unknown.
  std::vector<int64_t> in = shape.sizes();
  for (int64_t& size : in) size = size < 0 ? 1 : size;
  EVOQ_ASSIGN(const std::vector<AxisPlan> plans,
              PlansOf(args.node, in, args.constant(1), args.constant(2), args.constant(3)));
  const bool fixed = IsEmpty(args.constant(2)) &&
                     args.node.attrs.String("keep_aspect_ratio_policy", "stretch") == "stretch";
  EVOQ_ASSIGN(const std::vector<int> axes, ResizedAxes(args.node, shape.rank()));
  bool all_known = x.shape.is_static();
  for (int axis : axes) {
    if (fixed || all_known || (shape[axis].known() && !IsEmpty(args.constant(2)))) {
      shape[axis] = plans[axis].out;
    } else if (!(plans[axis].scale == 1 && !IsEmpty(args.constant(2)))) {
      shape[axis] = Dim();
    }
  }
  return std::vector<TensorType>{TensorType(x.dtype, std::move(shape))};
}

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

// Resizes elements of type T; integers only by nearest.
template <typename T>
Tensor Resized(const Tensor& x, const Interpolation& how, const std::vector<AxisPlan>& plans,
               T extrapolation) {
  std::vector<int64_t> sizes = x.sizes();
  std::vector<T> values(x.data<T>(), x.data<T>() + x.elements());
  std::vector<AxisTaps> taps;
  for (size_t axis = 0; axis < plans.size(); ++axis) {
    const AxisPlan& plan = plans[axis];
    taps.push_back({});
    const bool crops = how.coordinates == Coordinates::kTfCropAndResize &&
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

EvalResult Evaluate(const EvalArgs& args) {
  const Tensor& x = args.inputs[0];
  EVOQ_ASSIGN(const Interpolation how, InterpolationOf(args.node));
  const auto input = [&](size_t i) { return args.has(i) ? &args.inputs[i] : nullptr; };
  EVOQ_ASSIGN(const std::vector<AxisPlan> plans,
              PlansOf(args.node, x.sizes(), input(1), input(2), input(3)));
  const float extrapolation = args.node.attrs.Float("extrapolation_value", 0);
  if (x.dtype() == DType::kFloat32) return One(Resized<float>(x, how, plans, extrapolation));
  if (x.dtype() == DType::kFloat64) return One(Resized<double>(x, how, plans, extrapolation));
  if (!how.nearest || how.coordinates == Coordinates::kTfCropAndResize)
    return Unsupported("{} input of mode {}", DTypeName(x.dtype()),
                       args.node.attrs.String("mode", "nearest"));
  return DispatchWidth(x.dtype(), [&](auto tag) -> EvalResult {
    return One(Resized<decltype(tag)>(x, how, plans, 0));
  });
}

}  // namespace

extern const OpDef kResize = {
    .name = "Resize",
    .max_inputs = 4,
    .quant = QuantTrait::kReal,
    .spatial = true,
    .infer = Infer,
    .evaluate = Evaluate,
    .roles = {Role::kData, Role::kParameter, Role::kParameter, Role::kParameter}};

}  // namespace evoq
