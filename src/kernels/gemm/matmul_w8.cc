// matmul_w8: MatMul of a few float32 rows by constant weights that are stored in one of the formats
// of weights/formats.inc and stay so in memory (the kernel is named after the first one). Bound by
// the bytes of the weights, it takes a fraction of the time of float32; the sum that it computes is
// written in weights/format.h.
#include <algorithm>

#include "base/math.h"
#include "kernels/call_util.h"
#include "kernels/gemm/float_rows.h"
#include "kernels/gemm/matmul_shape.h"
#include "kernels/gemm/weights/formats.h"
#include "kernels/parallel.h"

namespace evoq {
namespace {

constexpr int kMaxRows = 16;  // of a

std::optional<Reason> RejectW8(const KernelCall& call) {
  if (auto why = RejectFloatOperands(call, "a, b and y")) return why;
  const TensorType& b = call.inputs[1];
  if (auto why = RejectWeightElements(b)) return why;
  if (call.constant(1) == nullptr) return Reject("not-constant", "b is computed");
  if (auto unknown = RejectUnknownShapes(call)) return unknown;
  if (auto why = RejectWeightScales(b)) return why;
  if (!ActivationFromAttrs(call.attrs))
    return Reject("attribute", "activation {}", call.attrs.String("activation"));
  if (auto why = RejectDataBlock(call)) return why;
  MatMulShape shape;
  if (auto why = ReadMatMulShape(call, shape)) return why;
  if (shape.m < 1 || shape.m > kMaxRows)
    return Reject("shape", "{} rows, expected 1 to {}", shape.m, kMaxRows);
  return std::nullopt;
}

struct W8State {
  BoundWeights weights;
  FloatRows rows;
  int64_t grain = 1;

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    const WeightPanels panels = weights.panels();
    const WeightRows operands = {rows.rows, static_cast<const float*>(in[0]), rows.bias(in),
                                 rows.residual(in), static_cast<float*>(out[0])};
    context.pool.ParallelFor(
        CeilDiv(panels.columns, int64_t{kWeightColumns}), grain, [&](int64_t begin, int64_t end) {
          weights.format->dot(panels, operands, begin, end);
          const int64_t first = begin * kWeightColumns,
                        count = std::min(end * kWeightColumns, panels.columns) - first;
          rows.Activate(operands.y + first, panels.columns, 0, rows.rows, count);
        });
  }
};

Result<BoundKernel> BindW8(const KernelCall& call, const BindOptions& options) {
  MatMulShape shape;
  if (const auto why = ReadMatMulShape(call, shape)) return Unsupported("{}", why->sentence);
  W8State state;
  EVOQ_ASSIGN(state.weights, BindWeights(*call.constant(1), options.isa));
  EVOQ_ASSIGN(state.rows, FloatRowsOf(call, shape.m, options.isa));
  const double panel_ns =
      static_cast<double>(shape.k) * (0.1 + 0.08 * static_cast<double>(shape.m));
  state.grain = RoundUp(Grain(CeilDiv(shape.n, int64_t{kWeightColumns}), panel_ns, options.threads),
                        int64_t{4});
  return BoundKernel::Of(std::move(state));
}

Result<Tensor> PackW8(const KernelCall& call, size_t input) {
  if (input != 1) return Tensor();
  return PackWeights(*call.constant(1));
}

bool ReadsPacked(const KernelCall& call, size_t input, std::string_view layout) {
  return input == 1 && ReadsWeights(call.inputs[1], layout);
}

}  // namespace

extern const KernelDef kMatMulW8 = {
    .name = "matmul_w8",
    .op = "MatMul",
    .precision = Precision::kFloat32,
    .peak = Peak::kMemory,
    .reject = RejectW8,
    .pack = PackW8,
    .reads = ReadsPacked,
    .bind = BindW8,
};

}  // namespace evoq
