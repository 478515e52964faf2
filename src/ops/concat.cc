// Concat and Split: joining tensors along an axis, and the inverse.
#include "base/math.h"
#include "ops/op.h"
#include "ops/symbolic_sizes.h"
#include "ops/util.h"

namespace evoq {
namespace {

Result<int64_t> RequiredAxis(const Node& node) {
  if (!node.attrs.Has("axis")) return InvalidInput("attribute axis is missing");
  return IntAttr(node, "axis", 0);
}

InferResult InferConcat(const InferArgs& args) {
  EVOQ_ASSIGN(const int64_t axis_attr, RequiredAxis(args.node));
  const TensorType& first = args.inputs[0];
  for (const TensorType& type : args.inputs) {
    if (type.dtype != first.dtype)
      return InvalidInput("joins {} and {}", DTypeName(first.dtype), DTypeName(type.dtype));
  }
  std::vector<Dim> dims;
  int axis = -1;
  for (size_t k = 0; k < args.inputs.size(); ++k) {
    const Shape& shape = args.inputs[k].shape;
    if (!shape.ranked())
      return std::vector<TensorType>{TensorType(first.dtype, Shape::UnknownRank())};
    if (axis < 0) {
      EVOQ_ASSIGN(axis, NormalizeAxis(axis_attr, shape.rank()));
      dims = shape.dims();
      continue;
    }
    if (shape.rank() != static_cast<int>(dims.size()))
      return InvalidInput("input {} has rank {}, expected {}", k, shape.rank(), dims.size());
    for (int i = 0; i < shape.rank(); ++i) {
      Dim& d = dims[i];
      if (i == axis) {
        if (d.known() && shape[i].known() && !CheckedAdd(d.value, shape[i].value))
          return Fail(ErrorCode::kTooLarge, "axis {} exceeds 2^63", i);
        d = SumOf(d, shape[i]);
      } else if (d.known() && shape[i].known() && d.value != shape[i].value) {
        return InvalidInput("input {} is {}: its size on axis {} differs from {}", k,
                            shape.ToString(), i, d.value);
      } else if (!d.known() && (shape[i].known() || d.symbol.empty())) {
        d = shape[i];
      }
    }
  }
  return std::vector<TensorType>{TensorType(first.dtype, Shape(std::move(dims)))};
}

// Sizes of `count` chunks of an axis of `size`: equal ones, the last one smaller where it does not
// divide.
Result<std::vector<int64_t>> EqualChunks(int64_t size, int64_t count) {
  const int64_t chunk = CeilDiv(size, count);
  std::vector<int64_t> sizes(count, chunk);
  const int64_t last = size - chunk * (count - 1);
  if (last < 0) return InvalidInput("cannot split {} into {} parts", size, count);
  sizes.back() = last;
  return sizes;
}

// The sizes that input 1 gives, checked against the axis where its size is known.
Status CheckSizes(const std::vector<int64_t>& sizes, size_t outputs, const Dim& dim) {
  if (sizes.size() != outputs)
    return InvalidInput("input 1 (split) has {} sizes for {} outputs", sizes.size(), outputs);
  int64_t sum = 0;
  for (int64_t s : sizes) {
    if (s < 0 || __builtin_add_overflow(sum, s, &sum))
      return InvalidInput("input 1 (split) has the size {}", s);
  }
  if (dim.known() && sum != dim.value)
    return InvalidInput("input 1 (split) adds up to {}, expected {}", sum, dim.value);
  return {};
}

InferResult InferSplit(const InferArgs& args) {
  EVOQ_ASSIGN(const int64_t axis_attr, IntAttr(args.node, "axis", 0));
  const size_t outputs = args.node.outputs.size();
  EVOQ_ASSIGN(const int64_t count,
              IntAttr(args.node, "num_outputs", static_cast<int64_t>(outputs)));
  if (count != static_cast<int64_t>(outputs))
    return InvalidInput("num_outputs is {}, but it has {} outputs", count, outputs);
  if (outputs == 0) return InvalidInput("has no outputs");
  const TensorType& x = args.inputs[0];
  std::vector<TensorType> types(outputs, TensorType(x.dtype, x.shape));
  if (!x.shape.ranked()) return types;
  EVOQ_ASSIGN(const int axis, NormalizeAxis(axis_attr, x.shape.rank()));
  EVOQ_ASSIGN(auto sizes, ConstantInts(args, 1));
  if (sizes) {
    EVOQ_TRY(CheckSizes(*sizes, outputs, x.shape[axis]));
  } else if (!args.has(1) && x.shape[axis].known()) {
    EVOQ_ASSIGN(sizes, EqualChunks(x.shape[axis].value, count));
  }
  for (size_t i = 0; i < outputs; ++i) types[i].shape[axis] = sizes ? Dim((*sizes)[i]) : Dim();
  return types;
}

}  // namespace

extern const OpDef kConcat = {.name = "Concat",
                              .max_inputs = -1,
                              .quant = QuantTrait::kMove,
                              .infer = InferConcat,
                              .axes = AxisUse::kAttribute};
extern const OpDef kSplit = {.name = "Split",
                             .max_inputs = 2,
                             .outputs = -1,
                             .quant = QuantTrait::kMove,
                             .infer = InferSplit,
                             .roles = {Role::kData, Role::kParameter},
                             .axes = AxisUse::kAttribute};

}  // namespace evoq
