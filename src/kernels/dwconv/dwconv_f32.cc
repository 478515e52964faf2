#include "kernels/dwconv/dwconv_call.h"
#include "kernels/gemm/curves_f32.h"
#include "kernels/layout.h"
#include "kernels/parallel.h"

namespace evoq {
namespace {

std::optional<Reason> RejectFloat(const KernelCall& call) {
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    if (!call.has_input(i) || PlainFloat(call.inputs[i]) || (i == 1 && call.inputs[1].quantized()))
      continue;
    return Reject("types", "input {} is {}, expected float32", i, call.inputs[i].ToString());
  }
  if (!PlainFloat(call.outputs[0]))
    return Reject("types", "output is {}, expected float32", call.outputs[0].ToString());
  return RejectUnlessDepthwise(call);
}

struct FloatState {
  DwFloatArgs args;
  AlignedBuffer bias, zeros;
  Tensor taps;               // the weights as layout taps-c, float32
  CurveF32 curve = nullptr;  // an activation that is not piecewise linear, applied row by row
  bool has_residual = false;
  Isa isa = Isa::kScalar;
  int64_t grain = 1;

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    const auto rows = DwTableFor(isa).float_rows;
    const auto* x = static_cast<const float*>(in[0]);
    const auto* residual = has_residual ? static_cast<const float*>(in[3]) : nullptr;
    auto* y = static_cast<float*>(out[0]);
    const int64_t row_floats = args.shape.w.out * args.shape.channels;
    context.pool.ParallelFor(args.shape.batch * args.shape.h.out, grain,
                             [&](int64_t begin, int64_t end) {
                               if (curve == nullptr) return rows(args, x, residual, y, begin, end);
                               for (int64_t row = begin; row < end; ++row) {
                                 rows(args, x, residual, y, row, row + 1);
                                 curve(y + row * row_floats, row_floats);
                               }
                             });
  }
};

// Weights stored as integers stay so in the file: they become float32 here.
Result<Tensor> FloatTaps(const KernelCall& call) {
  const Tensor& weights = *call.constant(1);
  if (!weights.type().quantized()) {
    EVOQ_TRY(CheckTaps(call));
    return weights;
  }
  EVOQ_ASSIGN(const Tensor plain, ToPlain(weights));
  EVOQ_ASSIGN(const Tensor real, ToFloat32(plain));
  return FindLayout("taps-c")->pack(real);
}

Result<Tensor> PackFloat(const KernelCall& call, size_t input) {
  return input == 1 && call.inputs[1].quantized() ? Tensor() : PackDepthwise(call, input);
}

Result<BoundKernel> BindFloat(const KernelCall& call, const BindOptions& options) {
  FloatState state;
  state.isa = options.isa;
  EVOQ_ASSIGN(state.taps, FloatTaps(call));
  EVOQ_ASSIGN(state.args.shape, DwShapeOf(call));
  const DwShape& shape = state.args.shape;
  const size_t padded = static_cast<size_t>(shape.blocks() * kDwBlock);
  state.bias = ZeroFloats(padded);
  state.zeros = ZeroFloats(padded);
  auto* bias = reinterpret_cast<float*>(state.bias.data());
  if (call.has_input(2)) std::copy_n(call.constant(2)->data<float>(), shape.channels, bias);
  state.args.taps = reinterpret_cast<const float*>(state.taps.raw());
  state.args.bias = bias;
  state.args.zeros = state.zeros.data();
  EVOQ_ASSIGN(const Activation activation, ActivationFromAttrs(call.attrs));
  state.args.bounds = OutputBounds::Real(activation);
  state.curve = CurveForF32(activation, options.isa);
  state.has_residual = call.has_input(3);
  state.grain = Grain(shape.batch * shape.h.out,
                      static_cast<double>(shape.w.out * shape.blocks()) *
                          (1.0 + 0.3 * static_cast<double>(shape.taps())),
                      options.threads);
  return BoundKernel::Of(std::move(state), 0,
                         KernelPlan{.widened = call.constant(1)->type().quantized()});
}

}  // namespace

extern const KernelDef kDwConvFloat = {
    .name = "dwconv_f32",
    .op = "Conv",
    .precision = Precision::kFloat32,
    .peak = Peak::kFloat32,
    .reject = RejectFloat,
    .pack = PackFloat,
    .bind = BindFloat,
};

}  // namespace evoq
