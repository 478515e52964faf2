// Conv, ConvTranspose, ConvInteger and QLinearConv.
#include "ops/conv.h"

#include <algorithm>

#include "base/math.h"
#include "ops/linear.h"
#include "ops/util.h"

namespace evoq {

Result<Dim> ConvOutputChannels(const Node& node, const Shape& w, bool transposed) {
  EVOQ_ASSIGN(const int64_t group, IntAttr(node, "group", 1));
  if (group < 1) return InvalidInput("attribute group is {}, expected at least 1", group);
  if (!w.ranked()) return Dim();
  if (w.rank() < 3) return InvalidInput("the weight is {}, expected rank 3 or more", w.ToString());
  if (w.rank() > 5)
    return Unsupported("the weight is {}, expected at most 3 spatial axes", w.ToString());
  if (w[0].known() && w[0].value % group != 0)
    return InvalidInput("{} {} channels do not divide into {} groups", w[0].value,
                        transposed ? "input" : "output", group);
  // Axis 1 counts the channels of one group: all are `group` times as many.
  const auto all = w[1].known() ? CheckedMul(w[1].value, group) : 0;
  if (!all)
    return Fail(ErrorCode::kTooLarge, "{} channels in each of {} groups", w[1].value, group);
  return !transposed ? w[0] : w[1].known() ? Dim(*all) : Dim();
}

Result<Shape> ConvOutputShape(const Node& node, const Shape& x, const Shape& w, bool transposed) {
  if (x.ranked()) {
    if (x.rank() < 3) return InvalidInput("input 0 is {}, expected rank 3 or more", x.ToString());
    if (x.rank() > 5)
      return Unsupported("input 0 is {}, expected at most 3 spatial axes", x.ToString());
    if (w.ranked() && w.rank() != x.rank())
      return InvalidInput("the weight is {}, expected rank {}", w.ToString(), x.rank());
  }
  EVOQ_ASSIGN(const Dim out_channels, ConvOutputChannels(node, w, transposed));
  if (!x.ranked() || !w.ranked()) return Shape::UnknownRank();
  const int64_t group = node.attrs.Int("group", 1);
  const Dim in_channels = transposed ? w[0] : w[1];
  if (x[1].known() && in_channels.known()) {
    const int64_t expected = in_channels.value * (transposed ? 1 : group);
    if (x[1].value != expected)
      return InvalidInput("input 0 has {} channels; the weight {} with group {} wants {}",
                          x[1].value, w.ToString(), group, expected);
  }
  EVOQ_ASSIGN(const std::vector<int64_t> kernel_shape, IntsAttr(node, "kernel_shape"));
  const auto kernel = SpatialDims(w);
  for (size_t d = 0; d < kernel_shape.size(); ++d) {
    if (kernel_shape.size() != kernel.size() ||
        (kernel[d].known() && kernel[d].value != kernel_shape[d]))
      return InvalidInput("attribute kernel_shape differs from the weight's {}", w.ToString());
  }
  EVOQ_ASSIGN(const Window window,
              transposed ? ResolveTransposedWindow(node, kernel, SpatialDims(x))
                         : ResolveWindow(node, kernel, SpatialDims(x), /*ceil_mode=*/false));
  std::vector<Dim> dims = {x[0], out_channels};
  dims.insert(dims.end(), window.output.begin(), window.output.end());
  return Shape(std::move(dims));
}

Result<ConvExtents> GeometryOf(const Node& node, const Shape& x, const Shape& w, bool transposed) {
  EVOQ_ASSIGN(const Window window,
              transposed
                  ? ResolveTransposedWindow(node, SpatialDims(w), SpatialDims(x))
                  : ResolveWindow(node, SpatialDims(w), SpatialDims(x), /*ceil_mode=*/false));
  ConvExtents s;
  s.batch = x[0].value;
  s.groups = node.attrs.Int("group", 1);
  s.in_channels = x[1].value / s.groups;
  s.out_channels = transposed ? w[1].value : w[0].value / s.groups;
  const int rank = x.rank() - 2;
  for (int i = 0; i < rank; ++i) {
    const int d = 3 - rank + i;
    s.in[d] = x[2 + i].value;
    s.kernel[d] = window.kernel[i];
    s.out[d] = window.output[i].value;
    s.stride[d] = window.strides[i];
    s.dilation[d] = window.dilations[i];
    s.pad[d] = window.pad_begin[i];
  }
  return s;
}

namespace {

template <bool kTransposed>
InferResult InferConv(const InferArgs& args) {
  EVOQ_TRY(CheckFloat(args, 0));
  EVOQ_TRY(CheckFloat(args, 1));
  EVOQ_ASSIGN(Shape y,
              ConvOutputShape(args.node, args.inputs[0].shape, args.inputs[1].shape, kTransposed));
  EVOQ_ASSIGN(const Dim channels, ConvOutputChannels(args.node, args.inputs[1].shape, kTransposed));
  EVOQ_TRY(CheckLinearExtras(args, channels, y));
  EVOQ_ASSIGN(const DType dtype, LinearOutputDType(args));
  return std::vector<TensorType>{TensorType(dtype, std::move(y))};
}

template <bool kTransposed>
int64_t MacsOf(const Node& node, std::span<const TensorType> inputs,
               std::span<const TensorType> outputs) {
  const auto s = GeometryOf(node, inputs[0].shape, inputs[1].shape, kTransposed);
  if (!s) return 0;
  const int64_t positions =
      kTransposed ? s->in_size()
                  : outputs[0].shape.elements().value_or(0) /
                        std::max<int64_t>(1, outputs[0].shape[0].value * outputs[0].shape[1].value);
  return s->batch * s->groups * s->out_channels * s->in_channels * s->taps() * positions;
}

// ---- ConvInteger(x, w, x_zero_point?, w_zero_point?)

constexpr DType kBytes[] = {DType::kUint8, DType::kInt8};

InferResult InferConvInteger(const InferArgs& args) {
  EVOQ_TRY(CheckDType(args, 0, kBytes));
  EVOQ_TRY(CheckDType(args, 1, kBytes));
  EVOQ_ASSIGN(Shape y,
              ConvOutputShape(args.node, args.inputs[0].shape, args.inputs[1].shape, false));
  return std::vector<TensorType>{TensorType(DType::kInt32, std::move(y))};
}

// ---- QLinearConv(x, x_scale, x_zero_point, w, w_scale, w_zero_point, y_scale, y_zero_point,
// bias?)

InferResult InferQLinearConv(const InferArgs& args) {
  EVOQ_TRY(CheckDType(args, 0, kBytes));
  EVOQ_TRY(CheckDType(args, 3, kBytes));
  EVOQ_TRY(CheckDType(args, 7, kBytes));
  EVOQ_ASSIGN(Shape y,
              ConvOutputShape(args.node, args.inputs[0].shape, args.inputs[3].shape, false));
  return std::vector<TensorType>{TensorType(args.inputs[7].dtype, std::move(y))};
}

constexpr LinearForm kConvForm = {
    .out_axis = 0, .in_axis = 1, .channel_axis = 1, .grouped = true, .integer_form = "ConvInteger"};
constexpr LinearForm kConvTransposeForm = {
    .out_axis = 1, .in_axis = 0, .channel_axis = 1, .grouped = true, .outputs_by_group = true};
constexpr LinearForm kConvIntegerForm = {.out_axis = 0,
                                         .in_axis = 1,
                                         .channel_axis = 1,
                                         .grouped = true,
                                         .real_form = "Conv",
                                         .dynamic_form = "DynamicConv"};

}  // namespace

int64_t ConvMacs(const Node& node, std::span<const TensorType> inputs,
                 std::span<const TensorType> outputs) {
  return MacsOf<false>(node, inputs, outputs);
}

extern const OpDef kConv = {
    .name = "Conv",
    .min_inputs = 2,
    .max_inputs = 5,
    .quant = QuantTrait::kLinear,
    .spatial = true,
    .infer = InferConv<false>,
    .macs = ConvMacs,
    .roles = {Role::kData, Role::kWeight, Role::kBias, Role::kResidual, Role::kTable},
    .linear = &kConvForm};
extern const OpDef kConvTranspose = {
    .name = "ConvTranspose",
    .min_inputs = 2,
    .max_inputs = 5,
    .quant = QuantTrait::kLinear,
    .spatial = true,
    .infer = InferConv<true>,
    .macs = MacsOf<true>,
    .roles = {Role::kData, Role::kWeight, Role::kBias, Role::kResidual},
    .linear = &kConvTransposeForm};
extern const OpDef kConvInteger = {
    .name = "ConvInteger",
    .min_inputs = 2,
    .max_inputs = 4,
    .spatial = true,
    .infer = InferConvInteger,
    .macs = ConvMacs,
    .roles = {Role::kData, Role::kWeight, Role::kZeroPoint, Role::kZeroPoint},
    .linear = &kConvIntegerForm};
extern const OpDef kQLinearConv = {
    .name = "QLinearConv", .min_inputs = 8, .max_inputs = 9, .infer = InferQLinearConv};

}  // namespace evoq
