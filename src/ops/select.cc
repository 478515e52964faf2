// Operators whose output size or order depends on the data: Compress, NonZero, TopK, Unique.
#include <algorithm>

#include "ops/op.h"
#include "ops/util.h"

namespace evoq {
namespace {

// ---- Compress(x, condition)

InferResult InferCompress(const InferArgs& args) {
  EVOQ_ASSIGN(const int64_t axis_attr, IntAttr(args.node, "axis", 0));
  EVOQ_TRY(CheckDType(args, 1, std::array{DType::kBool}));
  EVOQ_TRY(CheckRank(args, 1, 1));
  const TensorType& x = args.inputs[0];
  EVOQ_ASSIGN(const auto condition, ConstantInts(args, 1));
  const Dim count =
      condition
          ? Dim(std::count_if(condition->begin(), condition->end(), [](auto c) { return c != 0; }))
          : Dim();
  if (!args.node.attrs.Has("axis"))
    return std::vector<TensorType>{TensorType(x.dtype, Shape(std::vector<Dim>{count}))};
  if (!x.shape.ranked()) return SameAsInput0(args);
  EVOQ_ASSIGN(const int axis, NormalizeAxis(axis_attr, x.shape.rank()));
  std::vector<Dim> dims = x.shape.dims();
  dims[axis] = count;
  return std::vector<TensorType>{TensorType(x.dtype, Shape(std::move(dims)))};
}

// ---- NonZero(x)

InferResult InferNonZero(const InferArgs& args) {
  const Shape& x = args.inputs[0].shape;
  const Dim rank = x.ranked() ? Dim(std::max(x.rank(), 1)) : Dim();
  return std::vector<TensorType>{TensorType(DType::kInt64, Shape(std::vector<Dim>{rank, Dim()}))};
}

// ---- TopK(x, k)

InferResult InferTopK(const InferArgs& args) {
  EVOQ_ASSIGN(const int64_t axis_attr, IntAttr(args.node, "axis", -1));
  EVOQ_TRY(IntAttr(args.node, "largest", 1));
  EVOQ_TRY(IntAttr(args.node, "sorted", 1));
  EVOQ_ASSIGN(const auto k, ConstantInts(args, 1));
  if (k && k->size() != 1) return InvalidInput("input 1 (k) has {} values, expected 1", k->size());
  const TensorType& x = args.inputs[0];
  Shape shape = x.shape;
  if (shape.ranked()) {
    EVOQ_ASSIGN(const int axis, NormalizeAxis(axis_attr, shape.rank()));
    if (k && ((*k)[0] < 0 || (shape[axis].known() && (*k)[0] > shape[axis].value)))
      return InvalidInput("k is {} on axis {} of {}", (*k)[0], axis, shape.ToString());
    shape[axis] = k ? Dim((*k)[0]) : Dim();
  }
  return std::vector<TensorType>{TensorType(x.dtype, shape), TensorType(DType::kInt64, shape)};
}

// ---- Unique(x)

InferResult InferUnique(const InferArgs& args) {
  EVOQ_ASSIGN(const int64_t axis_attr, IntAttr(args.node, "axis", 0));
  EVOQ_TRY(IntAttr(args.node, "sorted", 1));
  const TensorType& x = args.inputs[0];
  Shape shape = x.shape;
  if (!args.node.attrs.Has("axis")) {
    shape = Shape(std::vector<Dim>(1));
  } else if (shape.ranked()) {
    EVOQ_ASSIGN(const int axis, NormalizeAxis(axis_attr, shape.rank()));
    shape[axis] = Dim();
  }
  std::vector<TensorType> types(4, TensorType(DType::kInt64, Shape(std::vector<Dim>(1))));
  types[0] = TensorType(x.dtype, std::move(shape));
  return types;
}

}  // namespace

extern const OpDef kCompress = {.name = "Compress",
                                .min_inputs = 2,
                                .max_inputs = 2,
                                .quant = QuantTrait::kMove,
                                .infer = InferCompress};
extern const OpDef kNonZero = {.name = "NonZero", .infer = InferNonZero};
extern const OpDef kTopK = {
    .name = "TopK", .min_inputs = 2, .max_inputs = 2, .outputs = 2, .infer = InferTopK};
extern const OpDef kUnique = {
    .name = "Unique", .outputs = 4, .strings = Strings::kRanks, .infer = InferUnique};

}  // namespace evoq
