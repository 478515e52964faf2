#include <algorithm>

#include "base/aligned.h"
#include "kernels/dwconv/dwconv_call.h"
#include "kernels/parallel.h"

namespace evoq {
namespace {

std::optional<Rejection> RejectInt8(const KernelCall& call) {
  if (!QuantizedU8(call.inputs[0])) {
    return Reject("types", "input 0 is {}, expected uint8 with one scale", call.inputs[0].ToString());
  }
  const TensorType &w = call.inputs[1], &y = call.outputs[0];
  const bool bytes = w.dtype == DType::kInt8 || w.dtype == DType::kUint8;
  if (!bytes || !w.quantized() || w.quant->block != 0 || (!w.quant->per_tensor() && w.quant->axis != 0)) {
    return Reject("types", "weights are {}, expected int8 or uint8 with scales per tensor or on axis 0", w.ToString());
  }
  if (!QuantizedU8(y) && !PlainFloat(y)) return Reject("types", "output is {}, expected uint8 with one scale or float32", y.ToString());
  if (call.has_input(2) && (call.inputs[2].dtype != DType::kInt32 || call.inputs[2].quantized())) {
    return Reject("types", "bias is {}, expected plain int32", call.inputs[2].ToString());
  }
  if (call.has_input(3) && (y.quantized() ? !QuantizedU8(call.inputs[3]) : !PlainFloat(call.inputs[3]))) {
    return Reject("types", "residual is {} for an output {}", call.inputs[3].ToString(), y.ToString());
  }
  if (auto rejection = RejectUnlessDepthwise(call)) return rejection;
  const ActivationKind kind = ActivationFromAttrs(call.attrs)->kind;
  if (!IsPiecewiseLinear(kind)) {
    return Reject("attribute", "activation {} is not piecewise linear: it takes a table step", ActivationName(kind));
  }
  if (DwShapeOf(call)->taps() > 32768) return Reject("shape", "a kernel of {} taps could overflow int32", DwShapeOf(call)->taps());
  return std::nullopt;
}

struct Int8State {
  DwInt8Args args;
  AlignedBuffer quads, taps, bias, multiplier, padding;
  Isa isa;
  int64_t grain;

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    const auto rows = DwTableFor(isa).int8_rows;
    const auto* x = static_cast<const uint8_t*>(in[0]);
    const void* residual = args.has_residual ? in[3] : nullptr;
    context.pool.ParallelFor(args.shape.batch * args.shape.h.out, grain,
                             [&](int64_t begin, int64_t end) { rows(args, x, residual, out[0], begin, end); });
  }
};

// The weights in the forms of DwInt8Args, from layout taps-c.
void PrepareWeights(Int8State& state, const TensorType& type, const std::byte* packed) {
  const QuantParams& quant = *type.quant;
  const DwShape& shape = state.args.shape;
  const int64_t padded = shape.blocks() * kDwBlock, kw = shape.w.kernel, quads = shape.quads();
  state.taps = AlignedBuffer(static_cast<size_t>(shape.taps() * padded) * sizeof(int16_t));
  auto* taps = reinterpret_cast<int16_t*>(state.taps.data());
  int lowest = 0, highest = 0;
  for (int64_t i = 0; i < shape.taps() * padded; ++i) {
    const int64_t c = i % padded;
    const int q = type.dtype == DType::kInt8 ? static_cast<int>(static_cast<int8_t>(packed[i])) : static_cast<int>(packed[i]);
    const int w = c < shape.channels ? q - quant.zero_points[quant.per_tensor() ? 0 : c] : 0;
    taps[i] = static_cast<int16_t>(w);
    lowest = std::min(lowest, w);
    highest = std::max(highest, w);
  }
  state.args.taps = taps;
  if (highest > 254) return;
  state.args.parts = lowest < -128 || highest > 127 ? 2 : 1;
  const int64_t part = padded * kw * quads * 4;
  state.quads = AlignedBuffer(static_cast<size_t>(part * state.args.parts));
  auto* quad = reinterpret_cast<int8_t*>(state.quads.data());
  std::fill(quad, quad + part * state.args.parts, int8_t{0});
  for (int64_t i = 0; i < shape.taps() * padded; ++i) {
    const int64_t c = i % padded, ky = i / padded / kw, kx = i / padded % kw;
    const int64_t at = (((c / kDwBlock * kw + kx) * quads + ky / 4) * kDwBlock + c % kDwBlock) * 4 + ky % 4;
    const int first = state.args.parts == 1 ? taps[i] : taps[i] / 2;
    quad[at] = static_cast<int8_t>(first);
    if (state.args.parts == 2) quad[part + at] = static_cast<int8_t>(taps[i] - first);
  }
  state.args.quads = quad;
}

void PrepareChannels(Int8State& state, const KernelCall& call) {
  const DwShape& shape = state.args.shape;
  const int64_t padded = shape.blocks() * kDwBlock;
  const QuantParams& quant = *call.inputs[1].quant;
  const int32_t zero_x = ZeroOf(call.inputs[0]);
  const float scale_y = call.outputs[0].quantized() ? ScaleOf(call.outputs[0]) : 1;
  state.bias = AlignedBuffer(static_cast<size_t>(padded) * sizeof(int32_t));
  state.multiplier = AlignedBuffer(static_cast<size_t>(padded) * sizeof(float));
  state.padding = AlignedBuffer(static_cast<size_t>(padded));
  auto* bias = reinterpret_cast<int32_t*>(state.bias.data());
  auto* multiplier = reinterpret_cast<float*>(state.multiplier.data());
  std::fill(state.padding.data(), state.padding.data() + padded, static_cast<std::byte>(zero_x));
  for (int64_t c = 0; c < padded; ++c) {
    const bool real = c < shape.channels;
    uint32_t sum = real && call.has_input(2) ? static_cast<uint32_t>(call.constant(2)->data<int32_t>()[c]) : 0;
    for (int64_t t = 0; t < shape.taps(); ++t) sum -= static_cast<uint32_t>(zero_x * state.args.taps[t * padded + c]);
    bias[c] = static_cast<int32_t>(sum);
    multiplier[c] = real ? LinearMultiplier(ScaleOf(call.inputs[0]), quant.scales[quant.per_tensor() ? 0 : c], scale_y) : 0;
  }
  state.args.bias = bias;
  state.args.multiplier = multiplier;
  state.args.padding = reinterpret_cast<const uint8_t*>(state.padding.data());
}

Result<BoundKernel> BindInt8(const KernelCall& call, const BindOptions& options) {
  EVOQ_TRY(CheckTaps(call));
  Int8State state;
  state.isa = options.isa;
  EVOQ_ASSIGN(state.args.shape, DwShapeOf(call));
  const DwShape& shape = state.args.shape;
  PrepareWeights(state, call.inputs[1], call.constant(1)->raw());
  PrepareChannels(state, call);
  EVOQ_ASSIGN(const Activation activation, ActivationFromAttrs(call.attrs));
  const TensorType& y = call.outputs[0];
  state.args.float_output = !y.quantized();
  state.args.bounds = y.quantized() ? OutputBounds::Integer(activation, ScaleOf(y), ZeroOf(y), 0, 255)
                                    : OutputBounds::Real(activation);
  state.args.has_residual = call.has_input(3);
  if (state.args.has_residual && y.quantized()) {
    state.args.residual_multiplier = ScaleRatio(ScaleOf(call.inputs[3]), ScaleOf(y));
    state.args.residual_zero = ZeroOf(call.inputs[3]);
  }
  state.grain = Grain(shape.batch * shape.h.out,
                      static_cast<double>(shape.w.out * shape.blocks()) * (2.0 + 0.2 * static_cast<double>(shape.taps())), options.threads);
  return BoundKernel::Of(std::move(state));
}

}  // namespace

extern const KernelDef kDwConvInt8 = {"dwconv_int8", "Conv", "int8", Peak::kInt8, RejectInt8, PackDepthwise, BindInt8};

}  // namespace evoq
