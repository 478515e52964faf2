// matmul_blocks: MatMul of float32 rows that are rounded to int8 by blocks (attribute data_block,
// blocks/block_data.h) by constant weights of 2, 4 or 8 bits, with integer dot products.
#include "kernels/call_util.h"
#include "kernels/gemm/blocks/block_data.h"
#include "kernels/gemm/blocks/bound_product.h"
#include "kernels/gemm/float_rows.h"
#include "kernels/gemm/matmul_shape.h"

namespace evoq {
namespace {

std::optional<Reason> RejectCall(const KernelCall& call, MatMulShape& shape) {
  const int64_t data_block = call.attrs.Int(kDataBlock, 0);
  if (data_block < 1) return Reject("attribute", "no data_block: the data is not rounded");
  if (auto why = RejectFloatOperands(call, "a, b and y")) return why;
  if (call.constant(1) == nullptr) return Reject("not-constant", "b is computed");
  if (auto unknown = RejectUnknownShapes(call)) return unknown;
  if (auto why = RejectBlocks(call.inputs[1], data_block)) return why;
  if (!ActivationFromAttrs(call.attrs))
    return Reject("attribute", "activation {}", call.attrs.String("activation"));
  return ReadMatMulShape(call, shape);
}

std::optional<Reason> RejectMatMulBlocks(const KernelCall& call) {
  MatMulShape shape;
  return RejectCall(call, shape);
}

struct MatMulBlocks {
  BoundProduct product;
  FloatRows rows;

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    auto* y = static_cast<float*>(out[0]);
    product.Run(static_cast<const float*>(in[0]), rows.bias(in), rows.residual(in), y,
                context.scratch, context.pool,
                [&](int64_t column, int64_t count, int64_t first, int64_t last) {
                  rows.Activate(y + column, product.columns(), first, last, count);
                });
  }
};

Result<BoundKernel> BindMatMulBlocks(const KernelCall& call, const BindOptions& options) {
  MatMulShape shape;
  if (const auto why = RejectCall(call, shape)) return Unsupported("{}", why->sentence);
  MatMulBlocks state;
  EVOQ_ASSIGN(state.product,
              WithContext(BoundProduct::Bind(*call.constant(1), call.attrs.Int(kDataBlock, 0),
                                             shape.m, options),
                          "MatMul"));
  EVOQ_ASSIGN(state.rows, FloatRowsOf(call, shape.m, options.isa));
  const auto scratch = static_cast<size_t>(state.product.scratch_bytes());
  KernelPlan plan = state.product.Describe();
  return BoundKernel::Of(std::move(state), scratch, std::move(plan));
}

Result<Tensor> PackMatMulBlocks(const KernelCall& call, size_t input) {
  if (input != 1) return Tensor();
  return PackBlocks(*call.constant(1));
}

bool ReadsPacked(const KernelCall& call, size_t input, std::string_view layout) {
  return input == 1 && ReadsBlocks(call.inputs[1], layout);
}

}  // namespace

extern const KernelDef kMatMulBlocks = {
    .name = "matmul_blocks",
    .op = "MatMul",
    .precision = Precision::kInt8,
    .peak = Peak::kInt8,
    .reject = RejectMatMulBlocks,
    .pack = PackMatMulBlocks,
    .reads = ReadsPacked,
    .bind = BindMatMulBlocks,
};

}  // namespace evoq
