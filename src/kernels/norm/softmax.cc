// Softmax and LogSoftmax along any axis, float32; Softmax on quantized uint8 along the last axis that has more than one
// element: dequantize, compute, quantize.
#include "kernels/norm/norm.h"
#include "kernels/parallel.h"
#include "kernels/quantize/axis.h"
#include "kernels/requant.h"

namespace evoq {
namespace {

struct Split {
  int64_t outer = 1, size = 1, inner = 1;
};

Result<Split> SplitOf(const KernelCall& call) {
  const Shape& x = call.inputs[0].shape;
  EVOQ_ASSIGN(const int axis, NormalizeAxis(call.attrs.Int("axis", -1), x.rank()));
  Split split;
  for (int i = 0; i < x.rank(); ++i) {
    (i < axis ? split.outer : i == axis ? split.size : split.inner) *= x[i].value;
  }
  return split;
}

std::optional<Rejection> RejectShape(const KernelCall& call) {
  if (auto unknown = RejectUnknownShapes(call)) return unknown;
  if (call.inputs[0].shape != call.outputs[0].shape) {
    return Reject("shape", "{} -> {}", call.inputs[0].shape.ToString(), call.outputs[0].shape.ToString());
  }
  if (auto split = SplitOf(call); !split) return Reject("attribute", "{}", split.error().message());
  return std::nullopt;
}

std::optional<Rejection> RejectFloat(const KernelCall& call) {
  if (!PlainFloat(call.inputs[0]) || !PlainFloat(call.outputs[0])) {
    return Reject("types", "{} -> {}, expected float32", call.inputs[0].ToString(), call.outputs[0].ToString());
  }
  return RejectShape(call);
}

struct FloatState {
  Split split;
  bool log;
  Isa isa;
  int64_t bands, grain;  // bands cut the inner elements for threads

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    const auto* x = static_cast<const float*>(in[0]);
    auto* y = static_cast<float*>(out[0]);
    const NormTable& table = NormTableFor(isa);
    if (split.size == 0 || split.inner == 0) return;
    context.pool.ParallelFor(split.outer * bands, grain, [&](int64_t begin, int64_t end) {
      if (split.inner == 1) return table.softmax_rows(x + begin * split.size, y + begin * split.size, end - begin, split.size, log);
      for (int64_t task = begin; task < end; ++task) {
        const int64_t at = task / bands * split.size * split.inner, band = task % bands;
        table.softmax_columns(x + at, y + at, split.size, split.inner, split.inner * band / bands,
                              split.inner * (band + 1) / bands, log);
      }
    });
  }
};

Result<BoundKernel> BindFloat(const KernelCall& call, const BindOptions& options) {
  FloatState state;
  EVOQ_ASSIGN(state.split, SplitOf(call));
  state.log = call.op == "LogSoftmax";
  state.isa = options.isa;
  state.bands = state.split.inner == 1 ? 1 : std::max<int64_t>(1, CeilDiv(state.split.inner, 256));
  const double task_ns = static_cast<double>(state.split.size * state.split.inner / std::max<int64_t>(state.bands, 1)) * 0.5 + 5;
  state.grain = Grain(state.split.outer * state.bands, task_ns, options.threads);
  return BoundKernel::Of(state);
}

constexpr int64_t kMaxByteRow = 8192;  // floats of a row on the stack

std::optional<Rejection> RejectBytes(const KernelCall& call) {
  if (!QuantizedU8(call.inputs[0]) || !QuantizedU8(call.outputs[0])) {
    return Reject("types", "{} -> {}, expected uint8 with one scale each", call.inputs[0].ToString(), call.outputs[0].ToString());
  }
  if (auto rejection = RejectShape(call)) return rejection;
  const Split split = *SplitOf(call);
  if (split.inner != 1 || split.size > kMaxByteRow) {
    return Reject("shape", "rows of {} with {} elements beside each other, expected at most {} contiguous ones", split.size,
                  split.inner, kMaxByteRow);
  }
  return std::nullopt;
}

struct ByteState {
  Split split;
  float scale_x, scale_y;
  int32_t zero_x, zero_y;
  Isa isa;
  int64_t grain;

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    const auto* x = static_cast<const uint8_t*>(in[0]);
    auto* y = static_cast<uint8_t*>(out[0]);
    const QuantizeTable& convert = QuantizeTableFor(isa);
    const auto softmax = NormTableFor(isa).softmax_rows;
    const int64_t n = split.size;
    context.pool.ParallelFor(split.outer, grain, [&](int64_t begin, int64_t end) {
      float row[kMaxByteRow];
      for (int64_t r = begin; r < end; ++r) {
        convert.dequantize(x + r * n, IntegerKind::kUint8, row, n, scale_x, zero_x);
        softmax(row, row, 1, n, false);
        convert.quantize(row, y + r * n, n, scale_y, zero_y, ByteRange{});
      }
    });
  }
};

Result<BoundKernel> BindBytes(const KernelCall& call, const BindOptions& options) {
  const TensorType &x = call.inputs[0], &y = call.outputs[0];
  EVOQ_ASSIGN(const Split split, SplitOf(call));
  const int64_t grain = Grain(split.outer, static_cast<double>(split.size) * 0.6 + 10, options.threads);
  return BoundKernel::Of(ByteState{split, ScaleOf(x), ScaleOf(y), ZeroOf(x), ZeroOf(y), options.isa, grain});
}

}  // namespace

extern const KernelDef kSoftmaxByte = {"softmax_u8", "Softmax", "int8", Peak::kMemory, RejectBytes, nullptr, BindBytes};
extern const KernelDef kSoftmaxFloat = {"softmax_f32", "Softmax", "float32", Peak::kMemory, RejectFloat, nullptr, BindFloat};
extern const KernelDef kLogSoftmaxFloat = {"log_softmax_f32", "LogSoftmax", "float32", Peak::kMemory, RejectFloat, nullptr, BindFloat};

}  // namespace evoq
