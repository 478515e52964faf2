// Transpose: y[i_perm[0], i_perm[1], ...] = x[i_0, i_1, ...].
// evoq::DequantizeTranspose: the same of a quantized x, with a float32 y.
#include "base/brief.h"
#include "base/text.h"
#include "ops/op.h"
#include "ops/strided.h"
#include "ops/util.h"

namespace evoq {
namespace {

// The permutation, reversed axes by default.
Result<std::vector<int64_t>> Permutation(const Node& node, int rank) {
  EVOQ_ASSIGN(std::vector<int64_t> perm, IntsAttr(node, "perm"));
  if (!node.attrs.Has("perm")) {
    for (int i = rank; i-- > 0;) perm.push_back(i);
    return perm;
  }
  std::vector<bool> seen(rank, false);
  bool valid = static_cast<int>(perm.size()) == rank;
  for (int64_t axis : perm) {
    valid = valid && axis >= 0 && axis < rank && !seen[axis];
    if (valid) seen[axis] = true;
  }
  if (!valid)
    return InvalidInput("perm {} is not a permutation of {} axes", BracketedBriefly<int64_t>(perm),
                        rank);
  return perm;
}

InferResult Infer(const InferArgs& args) {
  const TensorType& x = args.inputs[0];
  if (!x.shape.ranked()) return std::vector<TensorType>{x};
  EVOQ_ASSIGN(const std::vector<int64_t> perm, Permutation(args.node, x.shape.rank()));
  std::vector<Dim> dims;
  for (int64_t axis : perm) dims.push_back(x.shape[static_cast<int>(axis)]);
  return std::vector<TensorType>{TensorType(x.dtype, Shape(std::move(dims)))};
}

EvalResult Evaluate(const EvalArgs& args) {
  const Tensor& x = args.inputs[0];
  EVOQ_ASSIGN(const int64_t width, ElementBytes(x));
  EVOQ_ASSIGN(const std::vector<int64_t> perm, Permutation(args.node, x.shape().rank()));
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

extern const OpDef kTranspose = {
    .name = "Transpose", .quant = QuantTrait::kMove, .infer = Infer, .evaluate = Evaluate};
extern const OpDef kDequantizeTranspose = {.name = "DequantizeTranspose",
                                           .domain = "evoq",
                                           .quant = QuantTrait::kReal,
                                           .infer = Infer,
                                           .evaluate = Evaluate};

}  // namespace evoq
