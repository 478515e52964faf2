// matmul_pair_int8: MatMul of two computed operands of bytes (kernels/gemm/pair_product.h).
#include "base/math.h"
#include "kernels/call_util.h"
#include "kernels/gemm/pair_product.h"
#include "kernels/parallel.h"
#include "kernels/quantize/axis.h"

namespace evoq {
namespace {

std::optional<Reason> RejectPair(const KernelCall& call) {
  if (!QuantizedU8(call.inputs[0]) || !QuantizedByte(call.inputs[1]))
    return Reject("types", "{} * {}, expected bytes with one scale each", call.inputs[0].ToString(),
                  call.inputs[1].ToString());
  const TensorType& y = call.outputs[0];
  if (!QuantizedByte(y) && !PlainFloat(y))
    return Reject("types", "y is {}, expected bytes or float32", y.ToString());
  if (call.has_input(2)) return Reject("types", "a bias");
  for (size_t i = 4; i < call.inputs.size(); ++i) {
    if (call.has_input(i)) return Reject("types", "input {} is {}", i, call.inputs[i].ToString());
  }
  if (call.has_input(3)) {
    const TensorType& r = call.inputs[3];
    if (r.shape != y.shape || !(QuantizedByte(r) || (PlainFloat(r) && PlainFloat(y))))
      return Reject("types", "residual is {}, y {}", r.ToString(), y.ToString());
  }
  const auto activation = ActivationFromAttrs(call.attrs);
  if (!activation || !IsPiecewiseLinear(activation->kind))
    return Reject("attribute", "activation {}", call.attrs.String("activation"));
  if (auto unknown = RejectUnknownShapes(call)) return unknown;
  PairShapes s;
  if (auto why = ReadPairShapes(call.inputs[0], call.inputs[1], s)) return why;
  if (s.products() * s.m * s.n != y.shape.elements())
    return Reject("shape", "{} * {} -> {}", call.inputs[0].ToString(), call.inputs[1].ToString(),
                  y.ToString());
  return std::nullopt;
}

struct MatMulPair {
  PairProduct product;
  int64_t grain = 1;

  int64_t row_blocks() const { return CeilDiv(product.s.m, PairProduct::kRows); }

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    const PairProduct& p = product;
    p.Pack(in[1], context.scratch, context.pool);
    const uint8_t* const words = p.Words(in[0], context.scratch + p.packed_bytes());
    context.pool.ParallelFor(p.s.products() * row_blocks(), grain, [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t i = task / row_blocks(), first = task % row_blocks() * PairProduct::kRows,
                      y_row = i * p.s.m + first, residual_stride = p.s.n * p.residual_bytes();
        const void* residual = nullptr;
        if (p.epilogue.residual_type != Int8Residual::kNone)
          residual = static_cast<const std::byte*>(in[3]) + y_row * residual_stride;
        p.Rows({.product = i,
                .count = std::min(PairProduct::kRows, p.s.m - first),
                .words = words + (p.s.a_of[static_cast<size_t>(i)] * p.s.m + first) * p.depth(),
                .packed = context.scratch,
                .y = static_cast<uint8_t*>(out[0]) + y_row * p.y_row_bytes(),
                .residual = residual,
                .residual_stride = residual_stride});
      }
    });
  }
};

Result<BoundKernel> BindPair(const KernelCall& call, const BindOptions& options) {
  MatMulPair state;
  EVOQ_ASSIGN(state.product, PairProduct::Of(call, options));
  const PairProduct& p = state.product;
  const double task_ns =
      static_cast<double>(std::min(PairProduct::kRows, p.s.m) * p.s.n * p.s.k) / 400 + 20;
  state.grain = Grain(p.s.products() * state.row_blocks(), task_ns, options.threads);
  const auto scratch = static_cast<size_t>(p.packed_bytes() + p.words_bytes());
  KernelPlan plan{.code = p.tiles->name, .method = p.why};
  return BoundKernel::Of(std::move(state), scratch, std::move(plan));
}

}  // namespace

extern const KernelDef kMatMulPairInt8;
const KernelDef kMatMulPairInt8 = {
    .name = "matmul_pair_int8",
    .op = "MatMul",
    .precision = Precision::kInt8,
    .peak = Peak::kInt8,
    .reject = RejectPair,
    .bind = BindPair,
};

}  // namespace evoq
