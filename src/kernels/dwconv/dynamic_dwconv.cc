// dynamic_dwconv: DynamicConv that is depthwise. The bias, the multipliers and the padding depend
// on the run.
#include <algorithm>

#include "base/math.h"
#include "kernels/dwconv/dwconv_int8.h"
#include "kernels/gemm/dynamic_int8.h"
#include "kernels/parallel.h"

namespace evoq {
namespace {

std::optional<Reason> RejectDynamicDw(const KernelCall& call) {
  if (call.inputs[0].dtype != DType::kUint8)
    return Reject("types", "x is {}, expected uint8", call.inputs[0].ToString());
  if (auto rejection = RejectUnlessInt8Depthwise(call)) return rejection;
  if (auto rejection = RejectDynamic(call, call.inputs[1].shape[0].value, 0)) return rejection;
  return std::nullopt;
}

struct DynamicDwState : DwInt8State {
  std::vector<int32_t> weight_sum;    // per padded channel
  std::vector<int64_t> ring_channel;  // DwRingChannel of each lane; empty without a ring
  std::vector<float> offset;          // per padded channel; empty: none
  bool has_zero = false;
  int threads = 1;

  int64_t padded() const { return args.shape.blocks() * kDwBlock; }
  int64_t lanes() const { return static_cast<int64_t>(ring_channel.size()); }
  int64_t row_floats() const { return args.shape.w.out * args.shape.channels; }
  int64_t padding_bytes() const {
    return std::max(padded(), args.shape.w.in * args.shape.channels + kDwBlock);
  }
  size_t scratch_bytes() const {
    return static_cast<size_t>(8 * padded() + 4 * lanes() + RoundUp(padding_bytes(), 64) +
                               threads * kRangeBytes);
  }

  // The arguments of one run, with arrays in scratch.
  DwInt8Args ArgsOf(float scale, int32_t zero, std::byte* scratch) const {
    DwInt8Args now = args;
    auto* bias_now = reinterpret_cast<int32_t*>(scratch);
    auto* multiplier_now = reinterpret_cast<float*>(scratch + 4 * padded());
    auto* ring_now = reinterpret_cast<int32_t*>(scratch + 8 * padded());
    auto* padding_now = reinterpret_cast<uint8_t*>(scratch + 8 * padded() + 4 * lanes());
    const int64_t count = padded();
    const int32_t* __restrict sum = weight_sum.data();
    const float* __restrict weight_scale = args.multiplier;
    for (int64_t c = 0; c < count; ++c) bias_now[c] = -zero * sum[c];
    for (int64_t c = 0; c < count; ++c) multiplier_now[c] = scale * weight_scale[c];
    for (int64_t i = 0; i < lanes(); ++i)
      ring_now[i] = ring_channel[i] < 0 ? 0 : bias_now[ring_channel[i]];
    std::fill_n(padding_now, padding_bytes(), static_cast<uint8_t>(zero));
    now.bias = bias_now;
    now.multiplier = multiplier_now;
    now.padding = now.padding_row = padding_now;
    if (lanes() > 0) now.ring_bias = ring_now;
    return now;
  }

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    const int32_t zero = has_zero ? *static_cast<const uint8_t*>(in[kDynamicZero]) : 0;
    const DwInt8Args now =
        ArgsOf(*static_cast<const float*>(in[kDynamicScale]), zero, context.scratch);
    const auto rows = DwTableFor(isa).int8_rows;
    const auto* x = static_cast<const uint8_t*>(in[0]);
    const void* residual = args.has_residual ? in[3] : nullptr;
    std::byte* ranges = context.scratch + scratch_bytes() - threads * kRangeBytes;
    std::fill_n(ranges, threads * kRangeBytes, std::byte{0});
    context.pool.ParallelFor(
        args.shape.batch * args.shape.h.out, grain, [&](int64_t begin, int64_t end, int thread) {
          if (!finish.any()) return rows(now, x, residual, out[0], begin, end);
          auto* range = reinterpret_cast<float*>(ranges + thread * kRangeBytes);
          if (args.real && !finish.curve) {  // the rows find it
            DwInt8Args mine = now;
            mine.range = range;
            return rows(mine, x, residual, out[0], begin, end);
          }
          for (int64_t row = begin; row < end; row += 4) {
            const int64_t count = std::min<int64_t>(4, end - row);
            rows(now, x, residual, out[0], row, row + count);
            uint8_t* y = static_cast<uint8_t*>(out[0]) + 4 * row * row_floats();
            finish.Rows(y, count, row_floats(), 4 * row_floats(), range);
          }
        });
    if (finish.range) JoinRanges(ranges, kRangeBytes, threads, static_cast<float*>(out[1]));
  }
};

void SetChannels(DynamicDwState& state, const KernelCall& call) {
  const DwShape& shape = state.args.shape;
  const int64_t padded = state.padded();
  const QuantParams& quant = *call.inputs[1].quant;
  state.bias = AlignedBuffer(static_cast<size_t>(padded) * sizeof(int32_t));
  state.multiplier = AlignedBuffer(static_cast<size_t>(padded) * sizeof(float));
  state.padding = AlignedBuffer(static_cast<size_t>(padded));
  std::fill_n(state.bias.data(), state.bias.size(), std::byte{0});
  std::fill_n(state.padding.data(), state.padding.size(), std::byte{0});
  auto* multiplier = reinterpret_cast<float*>(state.multiplier.data());
  state.weight_sum.assign(static_cast<size_t>(padded), 0);
  for (int64_t c = 0; c < padded; ++c) {
    for (int64_t t = 0; t < shape.taps(); ++t)
      state.weight_sum[c] += state.args.taps[t * padded + c];
    multiplier[c] = c < shape.channels ? quant.scales[quant.per_tensor() ? 0 : c] : 0;
  }
  if (call.has_input(2)) {
    state.offset.assign(static_cast<size_t>(padded), 0);
    std::copy_n(call.constant(2)->data<float>(), shape.channels, state.offset.begin());
  }
  state.args.bias = reinterpret_cast<const int32_t*>(state.bias.data());
  state.args.multiplier = multiplier;
  state.args.offset = state.offset.empty() ? nullptr : state.offset.data();
}

Result<BoundKernel> BindDynamicDw(const KernelCall& call, const BindOptions& options) {
  EVOQ_TRY(CheckTaps(call));
  DynamicDwState state;
  EVOQ_ASSIGN(const Activation activation, ActivationFromAttrs(call.attrs));
  EVOQ_ASSIGN(state.args.shape, DwShapeOf(call));
  state.isa = options.isa;
  state.threads = options.threads;
  state.has_zero = call.has_input(kDynamicZero);
  state.finish = DynamicFinish(call, activation, options.isa);
  state.args.float_output = true;
  state.args.has_residual = call.has_input(3);
  if (IsPiecewiseLinear(activation.kind)) state.args.bounds = OutputBounds::Real(activation);
  state.SetWeights(call.inputs[1], call.constant(1)->raw());
  SetChannels(state, call);
  state.SetSlopes({activation});
  state.SetRing();
  state.SetGrain(options.threads);
  for (int64_t i = 0;
       state.args.ring_multiplier != nullptr && i < CeilDiv(state.args.shape.channels, 64) * 64;
       ++i)
    state.ring_channel.push_back(DwRingChannel(state.args, i));
  const size_t scratch = state.scratch_bytes();
  return BoundKernel::Of(std::move(state), scratch);
}

}  // namespace

extern const KernelDef kDynamicDwConv = {
    .name = "dynamic_dwconv",
    .op = "DynamicConv",
    .precision = Precision::kInt8,
    .peak = Peak::kInt8,
    .reject = RejectDynamicDw,
    .pack = PackDepthwise,
    .bind = BindDynamicDw,
};

}  // namespace evoq
