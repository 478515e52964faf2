// Transpose: y[i_perm[0], i_perm[1], ...] = x[i_0, i_1, ...].
// evoq::DequantizeTranspose: the same of a quantized x, with a float32 y.
#include "ops/transpose.h"

#include "reference/definition.h"
#include "reference/strided.h"
#include "reference/util.h"

namespace evoq {
namespace {

EvalResult Evaluate(const EvalArgs& args) {
  const Tensor& x = args.inputs[0];
  EVOQ_ASSIGN(const int64_t width, ElementBytes(x));
  EVOQ_ASSIGN(const std::vector<int64_t> perm, TransposePermutation(args.node, x.shape().rank()));
  const std::vector<int64_t> sizes = x.sizes(), strides = RowMajorStrides(sizes);
  std::vector<int64_t> out_sizes, out_strides;
  for (int64_t axis : perm) {
    out_sizes.push_back(sizes[axis]);
    out_strides.push_back(strides[axis]);
  }
  EVOQ_ASSIGN(Tensor y, AllocateOutput(TensorType(x.dtype(), Shape(out_sizes))));
  CopyFromStrided(x.raw(), out_strides, out_sizes, width, y.mutable_raw());
  return One(std::move(y));
}

}  // namespace

namespace reference {

extern const Definition kTranspose = {.name = "Transpose", .evaluate = Evaluate};
extern const Definition kDequantizeTranspose = {
    .name = "DequantizeTranspose", .domain = "evoq", .evaluate = Evaluate};

}  // namespace reference
}  // namespace evoq
