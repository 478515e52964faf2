// Expand(x, shape) broadcasts x with a shape; Tile(x, repeats) repeats x along every axis.
#include <algorithm>

#include "base/math.h"
#include "ops/indexing.h"
#include "ops/op.h"
#include "ops/strided.h"
#include "ops/util.h"

namespace evoq {
namespace {

InferResult InferExpand(const InferArgs& args) {
  const TensorType& x = args.inputs[0];
  EVOQ_ASSIGN(const auto wanted, ConstantInts(args, 1));
  if (!x.shape.ranked()) return std::vector<TensorType>{TensorType(x.dtype, Shape::UnknownRank())};
  Shape target;
  if (wanted) {
    EVOQ_TRY(CheckRankLimit(static_cast<int64_t>(wanted->size())));
    for (int64_t d : *wanted) {
      if (d < 0) return InvalidInput("input 1 (shape) has the size {}", d);
    }
    target = Shape(*wanted);
  } else {
    const Shape& list = args.inputs[1].shape;
    if (!list.ranked() || list.rank() != 1 || !list[0].known())
      return std::vector<TensorType>{TensorType(x.dtype, Shape::UnknownRank())};
    EVOQ_TRY(CheckRankLimit(list[0].value));
    // An unknown size d leaves a known size above 1 as it is and turns the others into an unknown
    // one.
    target = Shape(std::vector<Dim>(list[0].value));
  }
  EVOQ_ASSIGN(Shape shape, BroadcastShapes(x.shape, target));
  return std::vector<TensorType>{TensorType(x.dtype, std::move(shape))};
}

EvalResult EvaluateExpand(const EvalArgs& args) {
  EVOQ_ASSIGN(const std::vector<TensorType> types, InferFromValues(args, InferExpand));
  const Tensor& x = args.inputs[0];
  EVOQ_ASSIGN(const int64_t width, ElementBytes(x));
  EVOQ_ASSIGN(Tensor y, AllocateGrown(types[0]));
  CopyFromStrided(x.raw(), BroadcastStrides(x.sizes(), y.sizes()), y.sizes(), width,
                  y.mutable_raw());
  return One(std::move(y));
}

InferResult InferTile(const InferArgs& args) {
  const TensorType& x = args.inputs[0];
  EVOQ_ASSIGN(const auto repeats, ConstantInts(args, 1));
  if (!x.shape.ranked()) return std::vector<TensorType>{TensorType(x.dtype, Shape::UnknownRank())};
  std::vector<Dim> dims(x.shape.rank());
  if (repeats) {
    if (repeats->size() != dims.size())
      return InvalidInput("input 1 (repeats) has {} values, expected {}", repeats->size(),
                          dims.size());
    for (size_t i = 0; i < dims.size(); ++i) {
      const int64_t r = (*repeats)[i];
      if (r < 0) return InvalidInput("input 1 (repeats) has the value {}", r);
      const Dim& d = x.shape[static_cast<int>(i)];
      if (!d.known()) {
        dims[i] = r == 1 ? d : Dim();
        continue;
      }
      const auto product = CheckedMul(d.value, r);
      if (!product)
        return Fail(ErrorCode::kTooLarge, "axis {}: {} times {} exceeds 2^63", i, d.value, r);
      dims[i] = Dim(*product);
    }
  }
  return std::vector<TensorType>{TensorType(x.dtype, Shape(std::move(dims)))};
}

EvalResult EvaluateTile(const EvalArgs& args) {
  EVOQ_ASSIGN(const std::vector<TensorType> types, InferFromValues(args, InferTile));
  EVOQ_ASSIGN(const std::vector<int64_t> repeats, ToInt64s(args.inputs[1]));
  const Tensor& x = args.inputs[0];
  EVOQ_ASSIGN(const int64_t width, ElementBytes(x));
  EVOQ_ASSIGN(Tensor y, AllocateGrown(types[0]));
  // Each axis as two: the repeats, which do not move in x, and the axis itself.
  const std::vector<int64_t> x_sizes = x.sizes(), x_strides = RowMajorStrides(x_sizes);
  std::vector<int64_t> sizes, strides;
  for (size_t i = 0; i < x_sizes.size(); ++i) {
    sizes.insert(sizes.end(), {repeats[i], x_sizes[i]});
    strides.insert(strides.end(), {0, x_strides[i]});
  }
  CopyFromStrided(x.raw(), strides, sizes, width, y.mutable_raw());
  return One(std::move(y));
}

}  // namespace

extern const OpDef kExpand = {.name = "Expand",
                              .min_inputs = 2,
                              .max_inputs = 2,
                              .quant = QuantTrait::kMove,
                              .infer = InferExpand,
                              .evaluate = EvaluateExpand,
                              .roles = {Role::kData, Role::kParameter},
                              .axes = AxisUse::kTargetShape};
extern const OpDef kTile = {.name = "Tile",
                            .min_inputs = 2,
                            .max_inputs = 2,
                            .quant = QuantTrait::kMove,
                            .infer = InferTile,
                            .evaluate = EvaluateTile};

}  // namespace evoq
