// matmul_w8: MatMul of a few float32 rows by constant weights that are stored in one of the formats
// of weights/formats.inc and stay so in memory (the kernel is named after the first one). Bound by
// the bytes of the weights, it takes a fraction of the time of float32; the sum that it computes is
// written in weights/format.h.
#include <algorithm>

#include "base/math.h"
#include "kernels/call_util.h"
#include "kernels/gemm/matmul_shape.h"
#include "kernels/gemm/weights/formats.h"
#include "kernels/math/unary_loops.h"
#include "kernels/parallel.h"

namespace evoq {
namespace {

constexpr int kMaxRows = 16;  // of a

std::optional<Reason> RejectW8(const KernelCall& call) {
  if (call.outputs.size() != 1 || !call.has_input(0) || !call.has_input(1))
    return Reject("shape", "{} inputs and {} outputs, expected a, b and y", call.inputs.size(),
                  call.outputs.size());
  for (size_t i : {0, 2, 3}) {
    if (call.has_input(i) && !PlainFloat(call.inputs[i]))
      return Reject("types", "input {} is {}, expected float32", i, call.inputs[i].ToString());
  }
  if (!PlainFloat(call.outputs[0]))
    return Reject("types", "output {}, expected float32", call.outputs[0].ToString());
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
  int64_t rows = 0;
  std::optional<Unary> activation;
  bool has_bias = false, has_residual = false;
  Isa isa = Isa::kScalar;
  int64_t grain = 1;

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    const WeightPanels panels = weights.panels();
    const WeightRows operands = {rows, static_cast<const float*>(in[0]),
                                 has_bias ? static_cast<const float*>(in[2]) : nullptr,
                                 has_residual ? static_cast<const float*>(in[3]) : nullptr,
                                 static_cast<float*>(out[0])};
    context.pool.ParallelFor(
        CeilDiv(panels.columns, int64_t{kWeightColumns}), grain, [&](int64_t begin, int64_t end) {
          weights.format->dot(panels, operands, begin, end);
          if (!activation) return;
          const int64_t first = begin * kWeightColumns,
                        count = std::min(end * kWeightColumns, panels.columns) - first;
          for (int64_t r = 0; r < rows; ++r) {
            float* row = operands.y + r * panels.columns + first;
            UnaryTableFor(isa).apply(*activation, row, row, count);
          }
        });
  }
};

Result<BoundKernel> BindW8(const KernelCall& call, const BindOptions& options) {
  MatMulShape shape;
  if (const auto why = ReadMatMulShape(call, shape)) return Unsupported("{}", why->sentence);
  W8State state;
  EVOQ_ASSIGN(state.weights, BindWeights(*call.constant(1), options.isa));
  state.rows = shape.m;
  EVOQ_ASSIGN(const Activation activation, ActivationFromAttrs(call.attrs));
  state.activation = UnaryFromActivation(activation);
  state.has_bias = call.has_input(2);
  state.has_residual = call.has_input(3);
  state.isa = options.isa;
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

}  // namespace

extern const KernelDef kMatMulW8 = {
    .name = "matmul_w8",
    .op = "MatMul",
    .precision = Precision::kFloat32,
    .peak = Peak::kMemory,
    .reject = RejectW8,
    .pack = PackW8,
    .bind = BindW8,
};

}  // namespace evoq
