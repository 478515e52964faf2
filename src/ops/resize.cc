// Resize(x, roi?, scales?, sizes?): nearest, linear and cubic interpolation over any axes.
#include "ops/resize.h"

#include <algorithm>
#include <cmath>

#include "ops/util.h"

namespace evoq {
namespace {

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
                   std::vector<ResizeAxis>& plans) {
  if (scales.size() != axes.size())
    return InvalidInput("input 2 has {} scales, expected {}", scales.size(), axes.size());
  for (size_t i = 0; i < axes.size(); ++i) {
    ResizeAxis& plan = plans[axes[i]];
    if (!std::isfinite(scales[i]) || scales[i] <= 0)
      return InvalidInput("input 2 has the scale {}, expected more than 0", scales[i]);
    const float out = std::floor(static_cast<float>(plan.in) * scales[i]);
    if (out > 0x1p40f) return Fail(ErrorCode::kTooLarge, "size {} times {}", plan.in, scales[i]);
    plan.out = static_cast<int64_t>(out);
    plan.scale = scales[i];
    plan.given = true;
  }
  return {};
}

Status ApplySizes(const Node& node, const std::vector<int64_t>& sizes, const std::vector<int>& axes,
                  std::vector<ResizeAxis>& plans) {
  if (sizes.size() != axes.size())
    return InvalidInput("input 3 has {} sizes, expected {}", sizes.size(), axes.size());
  const std::string policy = node.attrs.String("keep_aspect_ratio_policy", "stretch");
  if (policy != "stretch" && policy != "not_larger" && policy != "not_smaller")
    return InvalidInput(
        "attribute keep_aspect_ratio_policy is '{}', expected stretch, not_larger or not_smaller",
        policy);
  double common = 0;
  for (size_t i = 0; i < axes.size(); ++i) {
    ResizeAxis& plan = plans[axes[i]];
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

bool IsEmptyCrop(const Tensor* tensor) { return tensor == nullptr || tensor->elements() == 0; }

}  // namespace

Result<std::vector<ResizeAxis>> ResizeAxesOf(const Node& node, const std::vector<int64_t>& in,
                                             const Tensor* roi, const Tensor* scales,
                                             const Tensor* sizes) {
  std::vector<ResizeAxis> plans(in.size());
  for (size_t i = 0; i < in.size(); ++i) plans[i].in = plans[i].out = in[i];
  EVOQ_ASSIGN(const std::vector<int> axes, ResizedAxes(node, static_cast<int>(in.size())));
  if (IsEmptyCrop(scales) == IsEmptyCrop(sizes))
    return InvalidInput("expected either scales (input 2) or sizes (input 3)");
  if (!IsEmptyCrop(scales)) {
    EVOQ_ASSIGN(const std::vector<float> values, FloatsOf(*scales));
    EVOQ_TRY(ApplyScales(values, axes, plans));
  } else {
    EVOQ_ASSIGN(const std::vector<int64_t> values, ToInt64s(*sizes));
    EVOQ_TRY(ApplySizes(node, values, axes, plans));
  }
  if (node.attrs.String("coordinate_transformation_mode") != "tf_crop_and_resize") return plans;
  if (IsEmptyCrop(roi)) return InvalidInput("tf_crop_and_resize needs roi (input 1)");
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

namespace {

// ---- coordinates

Result<ResizeCoordinates> ResizeCoordinatesOf(const Node& node) {
  const std::string name = node.attrs.String("coordinate_transformation_mode", "half_pixel");
  if (name == "half_pixel") return ResizeCoordinates::kHalfPixel;
  if (name == "half_pixel_symmetric") return ResizeCoordinates::kHalfPixelSymmetric;
  if (name == "pytorch_half_pixel") return ResizeCoordinates::kPytorchHalfPixel;
  if (name == "align_corners") return ResizeCoordinates::kAlignCorners;
  if (name == "asymmetric") return ResizeCoordinates::kAsymmetric;
  if (name == "tf_crop_and_resize") return ResizeCoordinates::kTfCropAndResize;
  return InvalidInput("attribute coordinate_transformation_mode is '{}', which ONNX does not have",
                      name);
}

Result<ResizeNearest> ResizeNearestOf(const Node& node) {
  const std::string name = node.attrs.String("nearest_mode", "round_prefer_floor");
  if (name == "round_prefer_floor")
    return ResizeNearest([](double x) { return std::ceil(x - 0.5); });
  if (name == "round_prefer_ceil")
    return ResizeNearest([](double x) { return std::floor(x + 0.5); });
  if (name == "floor") return ResizeNearest([](double x) { return std::floor(x); });
  if (name == "ceil") return ResizeNearest([](double x) { return std::ceil(x); });
  return InvalidInput("attribute nearest_mode is '{}', which ONNX does not have", name);
}

// ---- interpolation weights of one axis

}  // namespace

Result<ResizeInterpolation> ResizeInterpolationOf(const Node& node) {
  ResizeInterpolation result;
  const std::string mode = node.attrs.String("mode", "nearest");
  if (mode != "nearest" && mode != "linear" && mode != "cubic")
    return InvalidInput("attribute mode is '{}', expected nearest, linear or cubic", mode);
  result.nearest = mode == "nearest";
  result.cubic = mode == "cubic";
  result.antialias = node.attrs.Int("antialias") != 0;
  result.exclude_outside = node.attrs.Int("exclude_outside") != 0;
  result.cubic_a = node.attrs.Float("cubic_coeff_a", -0.75f);
  EVOQ_ASSIGN(result.coordinates, ResizeCoordinatesOf(node));
  EVOQ_ASSIGN(result.round, ResizeNearestOf(node));
  return result;
}

namespace {

// ---- the operator

// The name of floor(in * scale), "height*2r", so that sizes that are computed alike are known to be
// equal; no name without one or when it grows long.
Dim ScaledSize(const Dim& in, const ResizeAxis& plan) {
  constexpr size_t kLongestName = 64;
  if (in.symbol.empty() || in.symbol.size() > kLongestName) return Dim();
  return Dim::Symbolic(fmt::format("{}*{}r", in.symbol, plan.scale));
}

InferResult Infer(const InferArgs& args) {
  const TensorType& x = args.inputs[0];
  EVOQ_ASSIGN(const ResizeInterpolation how, ResizeInterpolationOf(args.node));
  const bool computes = !how.nearest || how.coordinates == ResizeCoordinates::kTfCropAndResize;
  if (computes && !IsFloat(x.dtype) && !IsInteger(x.dtype) && x.dtype != DType::kUndefined)
    return InvalidInput("input 0 is {} in mode {}, expected numbers: a Cast in front makes them",
                        DTypeName(x.dtype), args.node.attrs.String("mode", "nearest"));
  if (!x.shape.ranked()) return std::vector<TensorType>{x};
  const bool known = (!args.has(2) || args.constant(2)) && (!args.has(3) || args.constant(3)) &&
                     (!args.has(1) || args.constant(1));
  Shape shape = x.shape;
  if (!known)
    return std::vector<TensorType>{TensorType(x.dtype, Shape(std::vector<Dim>(shape.rank())))};
  // Unknown sizes are planned as 1; what depends on them stays unknown.
  std::vector<int64_t> in = shape.sizes();
  for (int64_t& size : in) size = size < 0 ? 1 : size;
  EVOQ_ASSIGN(const std::vector<ResizeAxis> plans,
              ResizeAxesOf(args.node, in, args.constant(1), args.constant(2), args.constant(3)));
  const bool fixed = IsEmptyCrop(args.constant(2)) &&
                     args.node.attrs.String("keep_aspect_ratio_policy", "stretch") == "stretch";
  EVOQ_ASSIGN(const std::vector<int> axes, ResizedAxes(args.node, shape.rank()));
  bool all_known = x.shape.is_static();
  for (int axis : axes) {
    if (fixed || all_known || (shape[axis].known() && !IsEmptyCrop(args.constant(2)))) {
      shape[axis] = plans[axis].out;
    } else if (!(plans[axis].scale == 1 && !IsEmptyCrop(args.constant(2)))) {
      shape[axis] = IsEmptyCrop(args.constant(2)) ? Dim() : ScaledSize(shape[axis], plans[axis]);
    }
  }
  return std::vector<TensorType>{TensorType(x.dtype, std::move(shape))};
}

}  // namespace

extern const OpDef kResize = {
    .name = "Resize",
    .max_inputs = 4,
    .quant = QuantTrait::kReal,
    .spatial = true,
    .infer = Infer,
    .roles = {Role::kData, Role::kParameter, Role::kParameter, Role::kParameter}};

}  // namespace evoq
