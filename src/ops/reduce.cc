// Reductions over the elements along `axes` (all axes by default).
#include "ops/reduce.h"

#include "ops/op.h"
#include "ops/util.h"

namespace evoq {

Result<std::vector<bool>> ReducedAxes(const Node& node, const std::vector<int64_t>* axes,
                                      int rank) {
  if (axes == nullptr || axes->empty())
    return std::vector<bool>(rank, node.attrs.Int("noop_with_empty_axes") == 0);
  std::vector<bool> reduced(rank, false);
  EVOQ_ASSIGN(const std::vector<int> normal, NormalizeAxes(*axes, rank));
  for (int axis : normal) reduced[axis] = true;
  return reduced;
}

namespace {

InferResult Infer(const InferArgs& args) {
  EVOQ_ASSIGN(const int64_t keepdims, IntAttr(args.node, "keepdims", 1));
  EVOQ_TRY(IntAttr(args.node, "noop_with_empty_axes", 0));
  const TensorType& x = args.inputs[0];
  EVOQ_ASSIGN(const auto axes, ConstantInts(args, 1));
  if (!x.shape.ranked()) return std::vector<TensorType>{TensorType(x.dtype, Shape::UnknownRank())};
  if (!axes && args.has(1)) {
    const Shape shape = keepdims ? Shape(std::vector<Dim>(x.shape.rank())) : Shape::UnknownRank();
    return std::vector<TensorType>{TensorType(x.dtype, shape)};
  }
  EVOQ_ASSIGN(const std::vector<bool> reduced,
              ReducedAxes(args.node, axes ? &*axes : nullptr, x.shape.rank()));
  std::vector<Dim> dims;
  for (int i = 0; i < x.shape.rank(); ++i) {
    if (!reduced[i])
      dims.push_back(x.shape[i]);
    else if (keepdims)
      dims.push_back(Dim(1));
  }
  return std::vector<TensorType>{TensorType(x.dtype, Shape(std::move(dims)))};
}

InferResult InferNumber(const InferArgs& args) {
  const DType dtype = args.inputs[0].dtype;
  if (!IsFloat(dtype) && !IsInteger(dtype))
    return InvalidInput("input 0 is {}, expected a number", DTypeName(dtype));
  return Infer(args);
}

using InferFn = InferResult (*)(const InferArgs&);

constexpr OpDef ReduceOp(const char* name, InferFn infer) {
  return {.name = name,
          .max_inputs = 2,
          .infer = infer,
          .roles = {Role::kData, Role::kParameter},
          .axes = AxisUse::kInputReduced};
}

}  // namespace

extern const OpDef kReduceL1 = ReduceOp("ReduceL1", InferNumber);
extern const OpDef kReduceL2 = ReduceOp("ReduceL2", InferNumber);
extern const OpDef kReduceLogSum = ReduceOp("ReduceLogSum", InferNumber);
extern const OpDef kReduceLogSumExp = ReduceOp("ReduceLogSumExp", InferNumber);
extern const OpDef kReduceMax = ReduceOp("ReduceMax", Infer);
extern const OpDef kReduceMin = ReduceOp("ReduceMin", Infer);
extern const OpDef kReduceProd = ReduceOp("ReduceProd", InferNumber);
extern const OpDef kReduceSum = ReduceOp("ReduceSum", InferNumber);
extern const OpDef kReduceSumSquare = ReduceOp("ReduceSumSquare", InferNumber);
extern const OpDef kReduceMean = {.name = "ReduceMean",
                                  .max_inputs = 2,
                                  .quant = QuantTrait::kReal,
                                  .infer = InferNumber,
                                  .roles = {Role::kData, Role::kParameter},
                                  .axes = AxisUse::kInputReduced};

}  // namespace evoq
