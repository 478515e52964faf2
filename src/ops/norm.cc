// Normalizations.
#include "ops/util.h"

namespace evoq {
namespace {

// Inputs [first, last] must be vectors of one value per channel of input 0.
Status CheckPerChannel(const InferArgs& args, size_t first, size_t last) {
  const Shape& x = args.inputs[0].shape;
  if (x.ranked() && x.rank() < 2)
    return InvalidInput("input 0 is {}, expected rank 2 or more", x.ToString());
  for (size_t i = first; i <= last; ++i) {
    EVOQ_TRY(CheckFloat(args, i));
    EVOQ_TRY(CheckRank(args, i, 1));
    const Shape& shape = args.inputs[i].shape;
    if (shape.ranked() && x.ranked() && shape[0].known() && x[1].known() && shape[0] != x[1])
      return InvalidInput("input {} has {} elements, expected one for each of {} channels", i,
                          shape[0].value, x[1].value);
  }
  return {};
}

// ---- BatchNormalization(x, scale, bias, mean, var)

InferResult InferBatchNorm(const InferArgs& args) {
  EVOQ_TRY(CheckFloat(args, 0));
  if (args.node.attrs.Int("training_mode") != 0) return Unsupported("training_mode 1");
  EVOQ_TRY(CheckPerChannel(args, 1, 4));
  return SameAsInput0(args);
}

// ---- InstanceNormalization(x, scale, bias)

InferResult InferInstanceNorm(const InferArgs& args) {
  EVOQ_TRY(CheckFloat(args, 0));
  EVOQ_TRY(CheckPerChannel(args, 1, 2));
  return SameAsInput0(args);
}

// ---- LayerNormalization(x, scale, bias?) -> y, mean, inverse deviation, over the axes from `axis`
// on

InferResult InferLayerNorm(const InferArgs& args) {
  const TensorType& x = args.inputs[0];
  for (size_t i = 0; i < 3; ++i) EVOQ_TRY(CheckFloat(args, i));
  EVOQ_ASSIGN(const int64_t axis_attr, IntAttr(args.node, "axis", -1));
  TensorType moments(DType::kFloat32, x.shape);
  if (!x.shape.ranked()) return std::vector<TensorType>{x, moments, moments};
  EVOQ_ASSIGN(const int axis, NormalizeAxis(axis_attr, x.shape.rank()));
  const Shape inner(std::vector<Dim>(x.shape.dims().begin() + axis, x.shape.dims().end()));
  for (size_t i = 1; i < 3; ++i) {
    if (!args.has(i)) continue;
    EVOQ_ASSIGN(const Shape all, BroadcastShapes(inner, args.inputs[i].shape));
    if (all.is_static() && inner.is_static() && all != inner)
      return InvalidInput("input {} is {}, expected a shape that broadcasts to {}", i,
                          args.inputs[i].ToString(), inner.ToString());
  }
  for (int i = axis; i < x.shape.rank(); ++i) moments.shape[i] = 1;
  return std::vector<TensorType>{x, moments, moments};
}

// ---- RMSNormalization(x, scale), over the axes from `axis` on

InferResult InferRmsNorm(const InferArgs& args) {
  EVOQ_ASSIGN(std::vector<TensorType> types, InferLayerNorm(args));
  types.resize(1);
  return types;
}

// ---- GroupNormalization(x, scale, bias)

InferResult InferGroupNorm(const InferArgs& args) {
  EVOQ_TRY(CheckFloat(args, 0));
  EVOQ_TRY(CheckPerChannel(args, 1, 2));
  EVOQ_ASSIGN(const int64_t groups, IntAttr(args.node, "num_groups", 0));
  const Shape& x = args.inputs[0].shape;
  if (groups < 1 || (x.ranked() && x[1].known() && x[1].value % groups != 0))
    return InvalidInput("attribute num_groups is {}, expected a divisor of the channels of {}",
                        groups, x.ToString());
  return SameAsInput0(args);
}

// ---- MeanVarianceNormalization(x)

InferResult InferMeanVariance(const InferArgs& args) {
  EVOQ_ASSIGN(const std::vector<int64_t> axes, IntsAttr(args.node, "axes", {0, 2, 3}));
  if (args.inputs[0].shape.ranked()) EVOQ_TRY(NormalizeAxes(axes, args.inputs[0].shape.rank()));
  return FloatSameAsInput0(args);
}

// ---- LRN(x)

InferResult InferLrn(const InferArgs& args) {
  EVOQ_ASSIGN(const int64_t size, IntAttr(args.node, "size", 0));
  if (size < 1) return InvalidInput("attribute size is {}, expected at least 1", size);
  EVOQ_TRY(CheckPerChannel(args, 1, 0));
  return FloatSameAsInput0(args);
}

// ---- LpNormalization(x)

InferResult InferLpNorm(const InferArgs& args) {
  const int64_t p = args.node.attrs.Int("p", 2);
  if (p != 1 && p != 2) return InvalidInput("attribute p is {}, expected 1 or 2", p);
  if (args.inputs[0].shape.ranked())
    EVOQ_TRY(NormalizeAxis(args.node.attrs.Int("axis", -1), args.inputs[0].shape.rank()));
  return FloatSameAsInput0(args);
}

}  // namespace

extern const OpDef kBatchNormalization = {.name = "BatchNormalization",
                                          .min_inputs = 5,
                                          .max_inputs = 5,
                                          .quant = QuantTrait::kReal,
                                          .spatial = true,
                                          .infer = InferBatchNorm};
extern const OpDef kGroupNormalization = {.name = "GroupNormalization",
                                          .min_inputs = 3,
                                          .max_inputs = 3,
                                          .spatial = true,
                                          .infer = InferGroupNorm};
extern const OpDef kInstanceNormalization = {.name = "InstanceNormalization",
                                             .min_inputs = 3,
                                             .max_inputs = 3,
                                             .spatial = true,
                                             .infer = InferInstanceNorm};
extern const OpDef kLRN = {.name = "LRN", .infer = InferLrn};
extern const OpDef kLayerNormalization = {
    .name = "LayerNormalization",
    .min_inputs = 2,
    .max_inputs = 3,
    .outputs = 3,
    .infer = InferLayerNorm,
    .roles = {Role::kData, Role::kParameter, Role::kParameter},
    .axes = AxisUse::kTrailing,
    .default_axis = -1};
extern const OpDef kLpNormalization = {.name = "LpNormalization", .infer = InferLpNorm};
extern const OpDef kMeanVarianceNormalization = {.name = "MeanVarianceNormalization",
                                                 .infer = InferMeanVariance};
extern const OpDef kRMSNormalization = {.name = "RMSNormalization",
                                        .min_inputs = 2,
                                        .max_inputs = 2,
                                        .infer = InferRmsNorm,
                                        .roles = {Role::kData, Role::kParameter},
                                        .axes = AxisUse::kTrailing,
                                        .default_axis = -1};

}  // namespace evoq
