// Gather, GatherElements and GatherND: elements picked by index. evoq::GatherColumns(x, indices),
// of a matrix x [K, N]: y[.., k] = x[k, indices[..]], rows of the transposed matrix.
#include "ops/indexing.h"
#include "ops/op.h"
#include "ops/util.h"

namespace evoq {
namespace {

InferResult InferGather(const InferArgs& args) {
  EVOQ_ASSIGN(const int64_t axis_attr, IntAttr(args.node, "axis", 0));
  EVOQ_TRY(CheckIndexType(args, 1));
  const TensorType& x = args.inputs[0];
  const Shape& indices = args.inputs[1].shape;
  if (!x.shape.ranked() || !indices.ranked())
    return std::vector<TensorType>{TensorType(x.dtype, Shape::UnknownRank())};
  EVOQ_ASSIGN(const int axis, NormalizeAxis(axis_attr, x.shape.rank()));
  if (const int64_t size = x.shape[axis].value; args.constant(1) != nullptr && size >= 0) {
    EVOQ_ASSIGN(const auto values, ConstantInts(args, 1));
    for (int64_t v : *values) EVOQ_TRY(WithContext(NormalizeIndex(v, size), "input 1 (indices)"));
  }
  std::vector<Dim> dims(x.shape.dims().begin(), x.shape.dims().begin() + axis);
  dims.insert(dims.end(), indices.dims().begin(), indices.dims().end());
  dims.insert(dims.end(), x.shape.dims().begin() + axis + 1, x.shape.dims().end());
  return std::vector<TensorType>{TensorType(x.dtype, Shape(std::move(dims)))};
}

InferResult InferGatherElements(const InferArgs& args) {
  EVOQ_ASSIGN(const int64_t axis_attr, IntAttr(args.node, "axis", 0));
  EVOQ_TRY(CheckIndexType(args, 1));
  const Shape& x = args.inputs[0].shape;
  const Shape& indices = args.inputs[1].shape;
  if (x.ranked() && indices.ranked()) {
    EVOQ_ASSIGN(const int axis, NormalizeAxis(axis_attr, x.rank()));
    EVOQ_TRY(CheckElementIndices(x, indices, axis));
  }
  return std::vector<TensorType>{TensorType(args.inputs[0].dtype, indices)};
}

InferResult InferGatherND(const InferArgs& args) {
  EVOQ_ASSIGN(const int64_t batch, IntAttr(args.node, "batch_dims", 0));
  EVOQ_TRY(CheckIndexType(args, 1));
  const TensorType& x = args.inputs[0];
  const Shape& indices = args.inputs[1].shape;
  if (!x.shape.ranked() || !indices.ranked() ||
      (indices.rank() > 0 && !indices[indices.rank() - 1].known()))
    return std::vector<TensorType>{TensorType(x.dtype, Shape::UnknownRank())};
  if (indices.rank() == 0 || x.shape.rank() == 0)
    return InvalidInput("has a scalar input, expected rank 1 or more");
  const int64_t depth = indices[indices.rank() - 1].value;
  if (batch < 0 || batch >= indices.rank() || depth > x.shape.rank() - batch)
    return InvalidInput("batch_dims {} with data {} and indices {}", batch, x.shape.ToString(),
                        indices.ToString());
  for (int i = 0; i < batch; ++i) {
    if (x.shape[i].known() && indices[i].known() && x.shape[i].value != indices[i].value)
      return InvalidInput("batch axis {} has {} and {} indices", i, x.shape[i].value,
                          indices[i].value);
  }
  std::vector<Dim> dims(indices.dims().begin(), indices.dims().end() - 1);
  dims.insert(dims.end(), x.shape.dims().begin() + batch + depth, x.shape.dims().end());
  return std::vector<TensorType>{TensorType(x.dtype, Shape(std::move(dims)))};
}

InferResult InferGatherColumns(const InferArgs& args) {
  EVOQ_TRY(CheckRank(args, 0, 2));
  EVOQ_TRY(CheckIndexType(args, 1));
  const TensorType& x = args.inputs[0];
  const Shape& indices = args.inputs[1].shape;
  if (!x.shape.ranked() || !indices.ranked())
    return std::vector<TensorType>{TensorType(x.dtype, Shape::UnknownRank())};
  std::vector<Dim> dims(indices.dims().begin(), indices.dims().end());
  dims.push_back(x.shape[0]);
  return std::vector<TensorType>{TensorType(x.dtype, Shape(std::move(dims)))};
}

}  // namespace

// Quantized: input 0 only; the indices are never quantized.
extern const OpDef kGather = {.name = "Gather",
                              .min_inputs = 2,
                              .max_inputs = 2,
                              .quant = QuantTrait::kMove,
                              .infer = InferGather,
                              .roles = {Role::kData, Role::kParameter},
                              .axes = AxisUse::kGathered,
                              .indices = 1};
extern const OpDef kGatherElements = {.name = "GatherElements",
                                      .min_inputs = 2,
                                      .max_inputs = 2,
                                      .quant = QuantTrait::kMove,
                                      .infer = InferGatherElements,
                                      .indices = 1};
extern const OpDef kGatherND = {.name = "GatherND",
                                .min_inputs = 2,
                                .max_inputs = 2,
                                .quant = QuantTrait::kMove,
                                .infer = InferGatherND,
                                .indices = 1};
extern const OpDef kGatherColumns = {.name = "GatherColumns",
                                     .domain = "evoq",
                                     .min_inputs = 2,
                                     .max_inputs = 2,
                                     .infer = InferGatherColumns,
                                     .roles = {Role::kData, Role::kParameter},
                                     .indices = 1};

}  // namespace evoq
