// Gather, GatherElements, GatherND and evoq::GatherColumns: elements picked by index. Negative
// indices count from the end; one outside
// [-size, size) is an error.
#include <cstring>

#include "ops/indexing.h"
#include "reference/definition.h"
#include "reference/indexing.h"
#include "reference/util.h"

namespace evoq {
namespace {

EvalResult EvaluateGather(const EvalArgs& args) {
  EVOQ_ASSIGN(const std::vector<TensorType> types, InferFromValues(args));
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

EvalResult EvaluateGatherElements(const EvalArgs& args) {
  EVOQ_ASSIGN(const std::vector<TensorType> types, InferFromValues(args));
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

EvalResult EvaluateGatherND(const EvalArgs& args) {
  EVOQ_ASSIGN(const std::vector<TensorType> types, InferFromValues(args));
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

EvalResult EvaluateGatherColumns(const EvalArgs& args) {
  EVOQ_ASSIGN(const std::vector<TensorType> types, InferFromValues(args));
  const Tensor& x = args.inputs[0];
  EVOQ_ASSIGN(const int64_t width, ElementBytes(x));
  const int64_t depth = x.sizes()[0], columns = x.sizes()[1];
  EVOQ_ASSIGN(const std::vector<int64_t> indices, IndicesInput(args, 1, columns));
  EVOQ_ASSIGN(Tensor y, AllocateGrown(types[0]));
  if (y.elements() == 0) return One(std::move(y));
  std::byte* to = y.mutable_raw();
  for (int64_t index : indices) {
    for (int64_t k = 0; k < depth; ++k, to += width)
      std::memcpy(to, x.raw() + (k * columns + index) * width, static_cast<size_t>(width));
  }
  return One(std::move(y));
}

}  // namespace

namespace reference {

extern const Definition kGather = {.name = "Gather", .evaluate = EvaluateGather};
extern const Definition kGatherElements = {.name = "GatherElements",
                                           .evaluate = EvaluateGatherElements};
extern const Definition kGatherND = {.name = "GatherND", .evaluate = EvaluateGatherND};
extern const Definition kGatherColumns = {
    .name = "GatherColumns", .domain = "evoq", .evaluate = EvaluateGatherColumns};

}  // namespace reference
}  // namespace evoq
