#include "kernels/pool/pool.h"

#include "kernels/bf16/bf16.h"
#include "kernels/call_util.h"
#include "kernels/parallel.h"

namespace evoq {
namespace {

bool IsGlobal(const KernelCall& call) { return call.op.starts_with("Global"); }

Result<PoolArgs> ArgsOf(const KernelCall& call) {
  const auto in = SpatialSizes(call.inputs[0], true), out = SpatialSizes(call.outputs[0], true);
  const auto kernel = IsGlobal(call) ? in : call.attrs.Ints("kernel_shape");
  static const Attrs kNone;
  EVOQ_ASSIGN(const std::vector<WindowDim> window,
              WindowFromAttrs(IsGlobal(call) ? kNone : call.attrs, kernel, in, out));
  PoolArgs args;
  args.batch = call.inputs[0].shape[0].value;
  args.channels = call.inputs[0].shape[call.inputs[0].shape.rank() - 1].value;
  args.w = window.back();
  if (window.size() > 1) args.h = window[window.size() - 2];
  if (window.size() > 2) args.d = window[0];
  args.global = IsGlobal(call);
  args.include_pad = !IsGlobal(call) && call.attrs.Int("count_include_pad") != 0;
  return args;
}

// Shapes and attributes; types are the row's business.
std::optional<Reason> RejectShape(const KernelCall& call) {
  if (auto unknown = RejectUnknownShapes(call)) return unknown;
  const Shape &x = call.inputs[0].shape, &y = call.outputs[0].shape;
  if (call.attrs.Int("channels_last") != 1) return Reject("layout", "needs channels_last=1");
  if (x.rank() < 3 || x.rank() > 5)
    return Reject("shape", "input 0 has rank {}, expected 3 to 5", x.rank());
  if (y.rank() != x.rank() || y[0] != x[0] || y[y.rank() - 1] != x[x.rank() - 1]) {
    return Reject("shape", "output {} for an input {}", y.ToString(), x.ToString());
  }
  if (call.outputs.size() > 1 && call.outputs[1].dtype != DType::kUndefined) {
    return Reject("attribute", "output 1 (indices) is read");
  }
  const auto args = ArgsOf(call);
  if (!args) return Reject("attribute", "{}", args.error().message());
  if (static_cast<double>(args->d.kernel) * static_cast<double>(args->h.kernel) *
          static_cast<double>(args->w.kernel) >
      4e6) {
    return Reject("shape", "a window of {}x{}x{} could overflow int32", args->d.kernel,
                  args->h.kernel, args->w.kernel);
  }
  return std::nullopt;
}

std::optional<Reason> RejectMaxByte(const KernelCall& call) {
  if (!(call.inputs[0].dtype == DType::kUint8 || call.inputs[0].dtype == DType::kInt8)) {
    return Reject("types", "input 0 is {}, expected uint8 or int8", call.inputs[0].ToString());
  }
  TensorType same = call.inputs[0];
  same.shape = call.outputs[0].shape;
  if (!(same == call.outputs[0]) || (same.quantized() && !same.quant->per_tensor())) {
    return Reject("types",
                  "{} -> {}: max pooling keeps the integers, so both need the same parameters",
                  call.inputs[0].ToString(), call.outputs[0].ToString());
  }
  return RejectShape(call);
}

std::optional<Reason> RejectFloat(const KernelCall& call) {
  if (auto why = RejectUnlessFloat(call)) return why;
  return RejectShape(call);
}

std::optional<Reason> RejectBf16(const KernelCall& call) {
  if (auto why = RejectUnlessBf16(call, 1)) return why;
  return RejectShape(call);
}

std::optional<Reason> RejectAverageByte(const KernelCall& call) {
  if (!QuantizedU8(call.inputs[0]) || !QuantizedU8(call.outputs[0])) {
    return Reject("types", "{} -> {}, expected uint8 with one scale each",
                  call.inputs[0].ToString(), call.outputs[0].ToString());
  }
  return RejectShape(call);
}

struct PoolState {
  PoolArgs args;
  PoolFn tasks;
  int64_t grain;

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    context.pool.ParallelFor(args.tasks(), grain, [&](int64_t begin, int64_t end) {
      tasks(args, in[0], out[0], begin, end);
    });
  }
};

Result<BoundKernel> Bind(const KernelCall& call, const BindOptions& options) {
  const bool max = call.op.ends_with("MaxPool");
  const PoolTable& table = PoolTableFor(options.isa);
  PoolState state;
  EVOQ_ASSIGN(state.args, ArgsOf(call));
  switch (call.inputs[0].dtype) {
    case DType::kUint8: state.tasks = max ? table.max_u8 : table.average_u8; break;
    case DType::kInt8: state.tasks = table.max_i8; break;
    case DType::kBfloat16: state.tasks = max ? table.max_bf16 : table.average_bf16; break;
    default: state.tasks = max ? table.max_f32 : table.average_f32;
  }
  if (!max && call.inputs[0].quantized()) {
    const TensorType &x = call.inputs[0], &y = call.outputs[0];
    state.args.zero_x = ZeroOf(x);
    state.args.scale_x = ScaleOf(x);
    state.args.scale_y = ScaleOf(y);
    state.args.bounds = OutputBounds::Integer({}, ScaleOf(y), ZeroOf(y), 0, 255);
  }
  const PoolArgs& args = state.args;
  const int64_t channels = std::min(args.channels, kPoolGroup);
  const double taps = static_cast<double>(args.d.kernel * args.h.kernel * args.w.kernel);
  state.grain = Grain(args.tasks(), static_cast<double>(args.w.out * channels) * (taps + 8) * 0.02,
                      options.threads);
  return BoundKernel::Of(std::move(state));
}

}  // namespace

#define EVOQ_POOL(symbol, kernel_name, op_name, kernel_precision, reject_call) \
  extern const KernelDef symbol = {                                            \
      .name = kernel_name,                                                     \
      .op = op_name,                                                           \
      .precision = Precision::kernel_precision,                                \
      .peak = Peak::kMemory,                                                   \
      .reject = reject_call,                                                   \
      .bind = Bind,                                                            \
  };
EVOQ_POOL(kMaxPoolByte, "maxpool_u8", "MaxPool", kInt8, RejectMaxByte)
EVOQ_POOL(kMaxPoolFloat, "maxpool_f32", "MaxPool", kFloat32, RejectFloat)
EVOQ_POOL(kMaxPoolBf16, "maxpool_bf16", "MaxPool", kBf16, RejectBf16)
EVOQ_POOL(kGlobalMaxPoolByte, "global_maxpool_u8", "GlobalMaxPool", kInt8, RejectMaxByte)
EVOQ_POOL(kGlobalMaxPoolFloat, "global_maxpool_f32", "GlobalMaxPool", kFloat32, RejectFloat)
EVOQ_POOL(kGlobalMaxPoolBf16, "global_maxpool_bf16", "GlobalMaxPool", kBf16, RejectBf16)
EVOQ_POOL(kAveragePoolByte, "avgpool_u8", "AveragePool", kInt8, RejectAverageByte)
EVOQ_POOL(kAveragePoolFloat, "avgpool_f32", "AveragePool", kFloat32, RejectFloat)
EVOQ_POOL(kAveragePoolBf16, "avgpool_bf16", "AveragePool", kBf16, RejectBf16)
EVOQ_POOL(kGlobalAveragePoolByte, "global_avgpool_u8", "GlobalAveragePool", kInt8,
          RejectAverageByte)
EVOQ_POOL(kGlobalAveragePoolFloat, "global_avgpool_f32", "GlobalAveragePool", kFloat32, RejectFloat)
EVOQ_POOL(kGlobalAveragePoolBf16, "global_avgpool_bf16", "GlobalAveragePool", kBf16, RejectBf16)
#undef EVOQ_POOL

}  // namespace evoq
