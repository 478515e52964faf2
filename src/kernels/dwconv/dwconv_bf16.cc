// dwconv_bf16: depthwise Conv of bfloat16 values, computed in float32 and rounded once, or not at
// all where the output is float32.
#include "kernels/bf16/bf16.h"
#include "kernels/dwconv/dwconv_call.h"
#include "kernels/parallel.h"

namespace evoq {
namespace {

std::optional<Reason> RejectBf16(const KernelCall& call) {
  for (size_t i : {0, 1, 3}) {
    if (call.has_input(i) && !PlainBf16(call.inputs[i]))
      return Reject("types", "input {} is {}, expected bfloat16", i, call.inputs[i].ToString());
  }
  if (call.has_input(2) && !PlainFloat(call.inputs[2]))
    return Reject("types", "the bias is {}, expected float32", call.inputs[2].ToString());
  if (!PlainBf16(call.outputs[0]) && !PlainFloat(call.outputs[0]))
    return Reject("types", "output is {}, expected bfloat16 or float32",
                  call.outputs[0].ToString());
  return RejectUnlessDepthwise(call);
}

struct Bf16State {
  DwFloatArgs args;
  AlignedBuffer taps, bias, zeros;
  bool has_residual = false, wide = false;
  Isa isa = Isa::kScalar;
  int64_t grain = 1;

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    const auto rows = DwBf16TableFor(isa).rows;
    DwFloatArgs call = args;
    if (wide) call.wide = static_cast<float*>(out[0]);
    const auto* residual = has_residual ? static_cast<const uint16_t*>(in[3]) : nullptr;
    context.pool.ParallelFor(args.shape.batch * args.shape.h.out, grain,
                             [&](int64_t begin, int64_t end) {
                               rows(call, static_cast<const uint16_t*>(in[0]), residual,
                                    static_cast<uint16_t*>(out[0]), begin, end);
                             });
  }
};

Result<BoundKernel> BindBf16(const KernelCall& call, const BindOptions& options) {
  EVOQ_TRY(CheckTaps(call));
  Bf16State state;
  state.isa = options.isa;
  EVOQ_ASSIGN(state.args.shape, DwShapeOf(call));
  const DwShape& shape = state.args.shape;
  const size_t padded = static_cast<size_t>(shape.blocks() * kDwBlock),
               taps = padded * static_cast<size_t>(shape.taps());
  state.taps = ZeroFloats(taps);
  state.bias = ZeroFloats(padded);
  auto* wide = reinterpret_cast<float*>(state.taps.data());
  Bf16TableFor(options.isa)
      .widen(reinterpret_cast<const uint16_t*>(call.constant(1)->raw()), wide,
             static_cast<int64_t>(taps));
  auto* bias = reinterpret_cast<float*>(state.bias.data());
  if (call.has_input(2)) std::copy_n(call.constant(2)->data<float>(), shape.channels, bias);
  state.args.taps = wide;
  state.args.bias = bias;
  state.zeros = ZeroFloats(padded);
  state.args.zeros = state.zeros.data();
  EVOQ_ASSIGN(const Activation activation, ActivationFromAttrs(call.attrs));
  state.args.bounds = OutputBounds::Real(activation);
  state.args.curve = CurveForF32(activation, options.isa);
  state.has_residual = call.has_input(3);
  state.wide = PlainFloat(call.outputs[0]);
  const double pixel_ns = 1.0 + 0.3 * static_cast<double>(shape.taps());
  state.grain =
      Grain(shape.batch * shape.h.out, static_cast<double>(shape.w.out * shape.blocks()) * pixel_ns,
            options.threads);
  return BoundKernel::Of(std::move(state));
}

}  // namespace

extern const KernelDef kDwConvBf16 = {
    .name = "dwconv_bf16",
    .op = "Conv",
    .precision = Precision::kBf16,
    .peak = Peak::kBf16,
    .reject = RejectBf16,
    .pack = PackDepthwise,
    .bind = BindBf16,
};

}  // namespace evoq
