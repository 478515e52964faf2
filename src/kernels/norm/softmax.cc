// Softmax and LogSoftmax along any axis, float32; Softmax on quantized uint8 by a table of
// exponentials (kernels/requant.h).
#include <bit>

#include "kernels/math/math.h"
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

std::optional<Reason> RejectShape(const KernelCall& call) {
  if (auto unknown = RejectUnknownShapes(call)) return unknown;
  if (call.inputs[0].shape != call.outputs[0].shape) {
    return Reject("shape", "{} -> {}", call.inputs[0].shape.ToString(),
                  call.outputs[0].shape.ToString());
  }
  if (auto split = SplitOf(call); !split) return Reject("attribute", "{}", split.error().message());
  return std::nullopt;
}

std::optional<Reason> RejectFloat(const KernelCall& call) {
  if (auto why = RejectUnlessFloat(call)) return why;
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
      if (split.inner == 1)
        return table.softmax_rows(x + begin * split.size, y + begin * split.size, end - begin,
                                  split.size, log);
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
  const double task_ns = static_cast<double>(state.split.size * state.split.inner /
                                             std::max<int64_t>(state.bands, 1)) *
                             0.5 +
                         5;
  state.grain = Grain(state.split.outer * state.bands, task_ns, options.threads);
  return BoundKernel::Of(state);
}

constexpr int64_t kMaxColumn = 8192;  // bytes of a strided row, gathered on the stack

std::optional<Reason> RejectBytes(const KernelCall& call) {
  if (!QuantizedU8(call.inputs[0]) || !QuantizedU8(call.outputs[0])) {
    return Reject("types", "{} -> {}, expected uint8 with one scale each",
                  call.inputs[0].ToString(), call.outputs[0].ToString());
  }
  if (auto rejection = RejectShape(call)) return rejection;
  const Split split = *SplitOf(call);
  if (split.inner != 1 && split.size > kMaxColumn)
    return Reject("shape", "{} elements along an inner axis, expected at most {}", split.size,
                  kMaxColumn);
  return std::nullopt;
}

struct ByteState {
  ByteSoftmax softmax;
  Split split;
  Isa isa;
  int64_t grain;

  void Column(const uint8_t* x, uint8_t* y) const {
    uint8_t column[kMaxColumn];
    for (int64_t k = 0; k < split.size; ++k) column[k] = x[k * split.inner];
    NormTableFor(isa).softmax_bytes(softmax, column, column, 1, split.size);
    for (int64_t k = 0; k < split.size; ++k) y[k * split.inner] = column[k];
  }

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    const auto* x = static_cast<const uint8_t*>(in[0]);
    auto* y = static_cast<uint8_t*>(out[0]);
    const int64_t n = split.size;
    if (n == 0) return;
    context.pool.ParallelFor(split.outer * split.inner, grain, [&](int64_t begin, int64_t end) {
      if (split.inner == 1)
        return NormTableFor(isa).softmax_bytes(softmax, x + begin * n, y + begin * n, end - begin,
                                               n);
      for (int64_t i = begin; i < end; ++i) {
        const int64_t at = i / split.inner * n * split.inner + i % split.inner;
        Column(x + at, y + at);
      }
    });
  }
};

Result<BoundKernel> BindBytes(const KernelCall& call, const BindOptions& options) {
  const TensorType &x = call.inputs[0], &y = call.outputs[0];
  ByteState state;
  EVOQ_ASSIGN(state.split, SplitOf(call));
  for (int d = 0; d < 256; ++d) {
    state.softmax.e[d] = ExpF(-static_cast<float>(d) * ScaleOf(x));
    const uint32_t bits = std::bit_cast<uint32_t>(state.softmax.e[d]);
    for (int k = 0; k < 4; ++k) state.softmax.e_bytes[k][d] = static_cast<uint8_t>(bits >> (8 * k));
    state.softmax.e_lanes[d / 64][d / 4 % 4][d / 16 % 4 * 4 + d % 4] = state.softmax.e[d];
  }
  state.softmax.scale_y = ScaleOf(y);
  state.softmax.zero_y = ZeroOf(y);
  state.isa = options.isa;
  state.grain = Grain(state.split.outer * state.split.inner,
                      static_cast<double>(state.split.size) * 0.1 + 10, options.threads);
  return BoundKernel::Of(std::move(state));
}

}  // namespace

extern const KernelDef kSoftmaxByte = {
    .name = "softmax_u8",
    .op = "Softmax",
    .precision = Precision::kInt8,
    .peak = Peak::kMemory,
    .reject = RejectBytes,
    .bind = BindBytes,
};
extern const KernelDef kSoftmaxFloat = {
    .name = "softmax_f32",
    .op = "Softmax",
    .precision = Precision::kFloat32,
    .peak = Peak::kMemory,
    .reject = RejectFloat,
    .bind = BindFloat,
};
extern const KernelDef kLogSoftmaxFloat = {
    .name = "log_softmax_f32",
    .op = "LogSoftmax",
    .precision = Precision::kFloat32,
    .peak = Peak::kMemory,
    .reject = RejectFloat,
    .bind = BindFloat,
};

}  // namespace evoq
