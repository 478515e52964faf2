// Expand(x, shape) broadcasts x with a shape; Tile(x, repeats) repeats x along every axis.
#include "reference/definition.h"
#include "reference/indexing.h"
#include "reference/strided.h"
#include "reference/util.h"

namespace evoq {
namespace {

EvalResult EvaluateExpand(const EvalArgs& args) {
  EVOQ_ASSIGN(const std::vector<TensorType> types, InferFromValues(args));
  const Tensor& x = args.inputs[0];
  EVOQ_ASSIGN(const int64_t width, ElementBytes(x));
  EVOQ_ASSIGN(Tensor y, AllocateGrown(types[0]));
  CopyFromStrided(x.raw(), BroadcastStrides(x.sizes(), y.sizes()), y.sizes(), width,
                  y.mutable_raw());
  return One(std::move(y));
}

EvalResult EvaluateTile(const EvalArgs& args) {
  EVOQ_ASSIGN(const std::vector<TensorType> types, InferFromValues(args));
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

namespace reference {

extern const Definition kExpand = {.name = "Expand", .evaluate = EvaluateExpand};
extern const Definition kTile = {.name = "Tile", .evaluate = EvaluateTile};

}  // namespace reference
}  // namespace evoq
