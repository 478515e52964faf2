// Concat and Split: joining tensors along an axis, and the inverse.
#include <cstring>

#include "reference/definition.h"
#include "reference/util.h"

namespace evoq {
namespace {

// Bytes of everything before, and of one index of, `axis`.
struct Blocks {
  int64_t outer = 1;
  int64_t inner_bytes = 1;
};

Blocks BlocksOf(const std::vector<int64_t>& sizes, int axis, int64_t width) {
  Blocks b;
  for (int i = 0; i < axis; ++i) b.outer *= sizes[i];
  for (size_t i = axis + 1; i < sizes.size(); ++i) b.inner_bytes *= sizes[i];
  b.inner_bytes *= width;
  return b;
}

EvalResult EvaluateConcat(const EvalArgs& args) {
  EVOQ_ASSIGN(const std::vector<TensorType> types, InferFromValues(args));
  EVOQ_ASSIGN(const int64_t width, ElementBytes(args.inputs[0]));
  EVOQ_ASSIGN(Tensor y, AllocateOutput(types[0]));
  EVOQ_ASSIGN(const int axis, NormalizeAxis(args.node.attrs.Int("axis"), y.shape().rank()));
  const Blocks blocks = BlocksOf(y.sizes(), axis, width);
  std::byte* to = y.mutable_raw();
  for (int64_t i = 0; i < blocks.outer; ++i) {
    for (const Tensor& x : args.inputs) {
      const size_t bytes = static_cast<size_t>(x.shape()[axis].value * blocks.inner_bytes);
      std::memcpy(to, x.raw() + i * bytes, bytes);
      to += bytes;
    }
  }
  return One(std::move(y));
}

EvalResult EvaluateSplit(const EvalArgs& args) {
  EVOQ_ASSIGN(const std::vector<TensorType> types, InferFromValues(args));
  const Tensor& x = args.inputs[0];
  EVOQ_ASSIGN(const int64_t width, ElementBytes(x));
  EVOQ_ASSIGN(const int axis, NormalizeAxis(args.node.attrs.Int("axis"), x.shape().rank()));
  const Blocks blocks = BlocksOf(x.sizes(), axis, width);
  const int64_t row = x.shape()[axis].value * blocks.inner_bytes;
  std::vector<Tensor> outputs;
  const std::byte* from = x.raw();
  for (const TensorType& type : types) {
    EVOQ_ASSIGN(Tensor y, AllocateOutput(type));
    const size_t bytes = static_cast<size_t>(type.shape[axis].value * blocks.inner_bytes);
    for (int64_t i = 0; i < blocks.outer; ++i)
      std::memcpy(y.mutable_raw() + i * bytes, from + i * row, bytes);
    from += bytes;
    outputs.push_back(std::move(y));
  }
  return outputs;
}

}  // namespace

namespace reference {

extern const Definition kConcat = {.name = "Concat", .evaluate = EvaluateConcat};
extern const Definition kSplit = {.name = "Split", .evaluate = EvaluateSplit};

}  // namespace reference
}  // namespace evoq
