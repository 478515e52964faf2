// Expand(x, shape) broadcasts x with a shape; Tile(x, repeats) repeats x along every axis.
#include "base/math.h"
#include "ops/indexing.h"
#include "ops/op.h"
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

}  // namespace

extern const OpDef kExpand = {.name = "Expand",
                              .min_inputs = 2,
                              .max_inputs = 2,
                              .quant = QuantTrait::kMove,
                              .infer = InferExpand,
                              .roles = {Role::kData, Role::kParameter},
                              .axes = AxisUse::kTargetShape};
extern const OpDef kTile = {.name = "Tile",
                            .min_inputs = 2,
                            .max_inputs = 2,
                            .quant = QuantTrait::kMove,
                            .infer = InferTile};

}  // namespace evoq
