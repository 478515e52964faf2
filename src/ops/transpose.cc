// Transpose: y[i_perm[0], i_perm[1], ...] = x[i_0, i_1, ...].
// evoq::DequantizeTranspose: the same of a quantized x, with a float32 y.
#include "ops/transpose.h"

#include "base/brief.h"
#include "ops/op.h"
#include "ops/util.h"

namespace evoq {

Result<std::vector<int64_t>> TransposePermutation(const Node& node, int rank) {
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

namespace {

InferResult Infer(const InferArgs& args) {
  const TensorType& x = args.inputs[0];
  if (!x.shape.ranked()) return std::vector<TensorType>{x};
  EVOQ_ASSIGN(const std::vector<int64_t> perm, TransposePermutation(args.node, x.shape.rank()));
  std::vector<Dim> dims;
  for (int64_t axis : perm) dims.push_back(x.shape[static_cast<int>(axis)]);
  return std::vector<TensorType>{TensorType(x.dtype, Shape(std::move(dims)))};
}

}  // namespace

extern const OpDef kTranspose = {.name = "Transpose", .quant = QuantTrait::kMove, .infer = Infer};
extern const OpDef kDequantizeTranspose = {
    .name = "DequantizeTranspose", .domain = "evoq", .quant = QuantTrait::kReal, .infer = Infer};

}  // namespace evoq
