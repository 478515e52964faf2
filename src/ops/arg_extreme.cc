// ArgMax and ArgMin: the index of the largest or smallest element along an axis.
#include "ops/op.h"
#include "ops/util.h"

namespace evoq {
namespace {

InferResult Infer(const InferArgs& args) {
  EVOQ_ASSIGN(const int64_t axis_attr, IntAttr(args.node, "axis", 0));
  EVOQ_ASSIGN(const int64_t keepdims, IntAttr(args.node, "keepdims", 1));
  EVOQ_TRY(IntAttr(args.node, "select_last_index", 0));
  const TensorType& x = args.inputs[0];
  if (!IsFloat(x.dtype) && !IsInteger(x.dtype))
    return InvalidInput("input 0 is {}, expected a number", x.ToString());
  if (!x.shape.ranked())
    return std::vector<TensorType>{TensorType(DType::kInt64, Shape::UnknownRank())};
  EVOQ_ASSIGN(const int axis, NormalizeAxis(axis_attr, x.shape.rank()));
  std::vector<Dim> dims = x.shape.dims();
  if (dims[axis] == Dim(0)) return InvalidInput("axis {} of {} is empty", axis, x.shape.ToString());
  if (keepdims != 0)
    dims[axis] = Dim(1);
  else
    dims.erase(dims.begin() + axis);
  return std::vector<TensorType>{TensorType(DType::kInt64, Shape(std::move(dims)))};
}

}  // namespace

extern const OpDef kArgMax = {.name = "ArgMax", .infer = Infer, .axes = AxisUse::kAttributeReduced};
extern const OpDef kArgMin = {.name = "ArgMin", .infer = Infer, .axes = AxisUse::kAttributeReduced};

}  // namespace evoq
