// Along an axis: CumSum, CumProd, ReverseSequence; and OneHot, Trilu.
#include "ops/arrange.h"

#include <algorithm>

#include "ops/indexing.h"
#include "ops/op.h"
#include "ops/util.h"

namespace evoq {
namespace {

// ---- CumSum(x, axis), CumProd(x, axis)

InferResult InferCumulative(const InferArgs& args) {
  EVOQ_TRY(IntAttr(args.node, "exclusive", 0));
  EVOQ_TRY(IntAttr(args.node, "reverse", 0));
  const TensorType& x = args.inputs[0];
  if (!IsFloat(x.dtype) && !IsInteger(x.dtype))
    return InvalidInput("input 0 is {}, expected a number", x.ToString());
  EVOQ_TRY(CheckIndexType(args, 1));
  EVOQ_ASSIGN(const auto axis, ConstantInts(args, 1));
  if (axis && axis->size() != 1)
    return InvalidInput("input 1 (axis) has {} values, expected 1", axis->size());
  if (axis && x.shape.ranked()) EVOQ_TRY(NormalizeAxis((*axis)[0], x.shape.rank()));
  return SameAsInput0(args);
}

// ---- ReverseSequence(x, lengths)

}  // namespace

Result<SequenceAxes> SequenceAxesOf(const Node& node, int rank) {
  EVOQ_ASSIGN(const int64_t batch, IntAttr(node, "batch_axis", 1));
  EVOQ_ASSIGN(const int64_t time, IntAttr(node, "time_axis", 0));
  if (rank < 2 || batch < 0 || batch > 1 || time != 1 - batch)
    return InvalidInput("batch_axis {} and time_axis {} of rank {}, expected 0 and 1 or 1 and 0",
                        batch, time, rank);
  return SequenceAxes{static_cast<int>(batch), static_cast<int>(time)};
}

namespace {

InferResult InferReverse(const InferArgs& args) {
  EVOQ_TRY(CheckIndexType(args, 1));
  EVOQ_TRY(CheckRank(args, 1, 1));
  const Shape& x = args.inputs[0].shape;
  if (!x.ranked()) return SameAsInput0(args);
  EVOQ_ASSIGN(const SequenceAxes axes, SequenceAxesOf(args.node, x.rank()));
  const Shape& lengths = args.inputs[1].shape;
  if (lengths.is_static() && x[axes.batch].known() && lengths[0].value != x[axes.batch].value)
    return InvalidInput("{} lengths for a batch of {}", lengths[0].value, x[axes.batch].value);
  return SameAsInput0(args);
}

// ---- OneHot(indices, depth, values = [off, on])

}  // namespace

Result<std::vector<int64_t>> Truncated(const Tensor& x) {
  if (!IsFloat(x.dtype())) return ToInt64s(x);
  EVOQ_ASSIGN(const Tensor real, ToFloat32(x));
  std::vector<int64_t> values;
  for (float v : real.values<float>())
    values.push_back(v == v ? static_cast<int64_t>(std::clamp(v, -0x1p62f, 0x1p62f)) : 0);
  return values;
}

namespace {

InferResult InferOneHot(const InferArgs& args) {
  EVOQ_ASSIGN(const int64_t axis_attr, IntAttr(args.node, "axis", -1));
  EVOQ_TRY(CheckRank(args, 2, 1));
  if (args.inputs[2].shape.is_static() && args.inputs[2].shape.elements() != 2)
    return InvalidInput("input 2 (values) is {}, expected two values", args.inputs[2].ToString());
  Dim depth;
  if (args.constant(1)) {
    EVOQ_ASSIGN(const std::vector<int64_t> values, Truncated(*args.constant(1)));
    if (values.size() != 1 || values[0] < 0) return InvalidInput("input 1 (depth) is not one size");
    depth = Dim(values[0]);
  }
  const Shape& indices = args.inputs[0].shape;
  if (!indices.ranked())
    return std::vector<TensorType>{TensorType(args.inputs[2].dtype, Shape::UnknownRank())};
  EVOQ_ASSIGN(const int axis, NormalizeAxis(axis_attr, indices.rank() + 1));
  std::vector<Dim> dims = indices.dims();
  dims.insert(dims.begin() + axis, depth);
  return std::vector<TensorType>{TensorType(args.inputs[2].dtype, Shape(std::move(dims)))};
}

// ---- Trilu(x, k?)

InferResult InferTrilu(const InferArgs& args) {
  EVOQ_TRY(IntAttr(args.node, "upper", 1));
  EVOQ_ASSIGN(const auto k, ConstantInts(args, 1));
  if (k && k->size() != 1) return InvalidInput("input 1 (k) has {} values, expected 1", k->size());
  if (args.inputs[0].shape.ranked() && args.inputs[0].shape.rank() < 2)
    return InvalidInput("input 0 has rank {}, expected 2 or more", args.inputs[0].shape.rank());
  return SameAsInput0(args);
}

}  // namespace

extern const OpDef kCumSum = {
    .name = "CumSum", .min_inputs = 2, .max_inputs = 2, .infer = InferCumulative};
extern const OpDef kCumProd = {
    .name = "CumProd", .min_inputs = 2, .max_inputs = 2, .infer = InferCumulative};
extern const OpDef kReverseSequence = {.name = "ReverseSequence",
                                       .min_inputs = 2,
                                       .max_inputs = 2,
                                       .quant = QuantTrait::kMove,
                                       .infer = InferReverse};
extern const OpDef kOneHot = {
    .name = "OneHot", .min_inputs = 3, .max_inputs = 3, .infer = InferOneHot};
extern const OpDef kTrilu = {.name = "Trilu", .max_inputs = 2, .infer = InferTrilu};

}  // namespace evoq
