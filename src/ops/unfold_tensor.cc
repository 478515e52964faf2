// com.microsoft::UnfoldTensor(x): windows of `size` elements along axis `dim`, `step` apart, as
// torch.Tensor.unfold: y[.., i, .., k] = x[.., i * step + k, ..], k being a new last axis.
#include "ops/util.h"

namespace evoq {
namespace {

InferResult Infer(const InferArgs& args) {
  EVOQ_ASSIGN(const int64_t dim, IntAttr(args.node, "dim", -1));
  EVOQ_ASSIGN(const int64_t size, IntAttr(args.node, "size", 0));
  EVOQ_ASSIGN(const int64_t step, IntAttr(args.node, "step", 1));
  if (size < 1 || step < 1)
    return InvalidInput("attributes size and step are {} and {}, expected at least 1", size, step);
  TensorType y = args.inputs[0];
  if (!y.shape.ranked()) return std::vector<TensorType>{y};
  EVOQ_ASSIGN(const int axis, NormalizeAxis(dim, y.shape.rank()));
  std::vector<Dim> dims = y.shape.dims();
  if (dims[axis].known()) {
    if (size > dims[axis].value)
      return InvalidInput("attribute size is {}, more than the {} of axis {}", size,
                          dims[axis].value, axis);
    dims[axis] = Dim((dims[axis].value - size) / step + 1);
  } else {
    dims[axis] = Dim();
  }
  dims.push_back(Dim(size));
  y.shape = Shape(std::move(dims));
  return std::vector<TensorType>{y};
}

}  // namespace

extern const OpDef kUnfoldTensor = {
    .name = "UnfoldTensor", .domain = "com.microsoft", .quant = QuantTrait::kMove, .infer = Infer};

}  // namespace evoq
