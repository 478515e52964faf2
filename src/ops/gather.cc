// Gather, GatherElements and GatherND: elements picked by index. Negative indices count from the
// end; one outside
// [-size, size) is an error.
#include <cstring>

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

EvalResult EvaluateGather(const EvalArgs& args) {
  EVOQ_ASSIGN(const std::vector<TensorType> types, InferFromValues(args, InferGather));
  const Tensor& x = args.inputs[0];
  EVOQ_ASSIGN(int64_t block, ElementBytes(x));
  EVOQ_ASSIGN(const int axis, NormalizeAxis(args.node.attrs.Int("axis"), x.shape().rank()));
  const std::vector<int64_t> sizes = x.sizes();
  EVOQ_ASSIGN(const std::vector<int64_t> indices, IndicesInput(args, 1, sizes[axis]));
  EVOQ_ASSIGN(Tensor y, AllocateGrown(types[0]));
  int64_t outer = 1;
  for (int i = 0; i < axis; ++i) outer *= sizes[i];
  for (size_t i = axis + 1; i < sizes.size(); ++i) block *= sizes[i];
  if (y.elements() == 0) return One(std::move(y));
  std::byte* to = y.mutable_raw();
  for (int64_t o = 0; o < outer; ++o) {
    const std::byte* from = x.raw() + o * sizes[axis] * block;
    for (int64_t index : indices) {
      std::memcpy(to, from + index * block, static_cast<size_t>(block));
      to += block;
    }
  }
  return One(std::move(y));
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

EvalResult EvaluateGatherElements(const EvalArgs& args) {
  EVOQ_ASSIGN(const std::vector<TensorType> types, InferFromValues(args, InferGatherElements));
  const Tensor& x = args.inputs[0];
  EVOQ_ASSIGN(const int64_t width, ElementBytes(x));
  EVOQ_ASSIGN(const int axis, NormalizeAxis(args.node.attrs.Int("axis"), x.shape().rank()));
  const std::vector<int64_t> strides = RowMajorStrides(x.sizes());
  EVOQ_ASSIGN(const std::vector<int64_t> indices, IndicesInput(args, 1, x.shape()[axis].value));
  EVOQ_ASSIGN(Tensor y, AllocateGrown(types[0]));
  std::vector<int64_t> walk = strides;  // every axis but the indexed one
  walk[axis] = 0;
  std::byte* to = y.mutable_raw();
  ForEachIndex<1>(y.sizes(), {walk}, [&](int64_t i, const auto& offset) {
    std::memcpy(to + i * width, x.raw() + (offset[0] + indices[i] * strides[axis]) * width,
                static_cast<size_t>(width));
  });
  return One(std::move(y));
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

EvalResult EvaluateGatherND(const EvalArgs& args) {
  EVOQ_ASSIGN(const std::vector<TensorType> types, InferFromValues(args, InferGatherND));
  const Tensor& x = args.inputs[0];
  EVOQ_ASSIGN(int64_t block, ElementBytes(x));
  EVOQ_ASSIGN(const std::vector<int64_t> indices, ToInt64s(args.inputs[1]));
  EVOQ_ASSIGN(Tensor y, AllocateGrown(types[0]));
  if (y.elements() == 0) return One(std::move(y));
  const int64_t batch = args.node.attrs.Int("batch_dims");
  const std::vector<int64_t> sizes = x.sizes(), index_sizes = args.inputs[1].sizes();
  const int64_t depth = index_sizes.back();
  for (size_t i = batch + depth; i < sizes.size(); ++i) block *= sizes[i];
  int64_t batches = 1, rows = 1, batch_elements = 1;
  for (int64_t i = 0; i < batch; ++i) batches *= sizes[i];
  for (size_t i = batch; i + 1 < index_sizes.size(); ++i) rows *= index_sizes[i];
  for (int64_t i = batch; i < batch + depth; ++i) batch_elements *= sizes[i];
  std::byte* to = y.mutable_raw();
  const int64_t* row = indices.data();
  for (int64_t i = 0; i < batches * rows; ++i, row += depth) {
    int64_t from = 0;
    for (int64_t k = 0; k < depth; ++k) {
      EVOQ_ASSIGN(const int64_t index, NormalizeIndex(row[k], sizes[batch + k]));
      from = from * sizes[batch + k] + index;
    }
    std::memcpy(to, x.raw() + (i / rows * batch_elements + from) * block,
                static_cast<size_t>(block));
    to += block;
  }
  return One(std::move(y));
}

}  // namespace

// Quantized: input 0 only; the indices are never quantized.
extern const OpDef kGather = {.name = "Gather",
                              .min_inputs = 2,
                              .max_inputs = 2,
                              .quant = QuantTrait::kMove,
                              .infer = InferGather,
                              .evaluate = EvaluateGather,
                              .roles = {Role::kData, Role::kParameter},
                              .axes = AxisUse::kGathered};
extern const OpDef kGatherElements = {.name = "GatherElements",
                                      .min_inputs = 2,
                                      .max_inputs = 2,
                                      .quant = QuantTrait::kMove,
                                      .infer = InferGatherElements,
                                      .evaluate = EvaluateGatherElements};
extern const OpDef kGatherND = {.name = "GatherND",
                                .min_inputs = 2,
                                .max_inputs = 2,
                                .quant = QuantTrait::kMove,
                                .infer = InferGatherND,
                                .evaluate = EvaluateGatherND};

}  // namespace evoq
