// Softmax, LayerNormalization and RMSNormalization over contiguous rows of bfloat16: rows are
// widened to float32 on the stack, computed as in float32 (kernels/norm/norm.h) and narrowed.
// Scales and biases are float32.
#include <algorithm>

#include "kernels/bf16/bf16.h"
#include "kernels/call_util.h"
#include "kernels/norm/norm.h"
#include "kernels/parallel.h"

namespace evoq {
namespace {

constexpr int64_t kMaxRow = 8192;
// Rows that are widened together, so that one need not wait for another: as many as half of a
// first cache holds.
constexpr int64_t kTogether = 4096, kMostRows = 16;

// Elements of the axes from `axis` on; for Softmax of that axis, which must have nothing beside it.
Result<int64_t> RowOf(const KernelCall& call) {
  const Shape& x = call.inputs[0].shape;
  EVOQ_ASSIGN(const int axis, NormalizeAxis(call.attrs.Int("axis", -1), x.rank()));
  int64_t n = x[axis].value, beside = 1;
  for (int i = axis + 1; i < x.rank(); ++i) beside *= x[i].value;
  if (call.op == "Softmax" && beside != 1)
    return InvalidInput("{} elements beside each other", beside);
  return n * beside;
}

std::optional<Reason> RejectRows(const KernelCall& call) {
  if (auto why = RejectUnlessBf16(call, 1)) return why;
  if (auto unknown = RejectUnknownShapes(call)) return unknown;
  if (call.inputs[0].shape != call.outputs[0].shape)
    return Reject("shape", "{} -> {}", call.inputs[0].shape.ToString(),
                  call.outputs[0].shape.ToString());
  const auto n = RowOf(call);
  if (!n) return Reject("shape", "{}", n.error().message());
  if (*n < 1 || *n > kMaxRow) return Reject("shape", "rows of {}, expected 1 to {}", *n, kMaxRow);
  for (size_t i = 1; i < call.inputs.size(); ++i) {
    if (!call.has_input(i)) continue;
    if (!PlainFloat(call.inputs[i]) || ElementsOf(call.inputs[i]) != *n)
      return Reject("types", "input {} is {}, expected {} of float32", i, call.inputs[i].ToString(),
                    *n);
  }
  for (size_t i = 1; i < call.outputs.size(); ++i) {
    if (call.outputs[i].dtype != DType::kUndefined)
      return Reject("attribute", "output {} is read", i);
  }
  return std::nullopt;
}

enum class RowKind { kSoftmax, kLayer, kRms };

struct RowState {
  RowKind kind;
  int64_t rows, n, grain;
  float epsilon;
  bool has_bias;
  Isa isa;

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    const auto* x = static_cast<const uint16_t*>(in[0]);
    const auto* scale = kind == RowKind::kSoftmax ? nullptr : static_cast<const float*>(in[1]);
    const auto* bias = has_bias ? static_cast<const float*>(in[2]) : nullptr;
    auto* y = static_cast<uint16_t*>(out[0]);
    const NormTable& norm = NormTableFor(isa);
    const Bf16Table& convert = Bf16TableFor(isa);
    context.pool.ParallelFor(rows, grain, [&](int64_t begin, int64_t end) {
      alignas(64) float row[kMaxRow];
      const int64_t together = std::clamp<int64_t>(kTogether / n, 1, kMostRows);
      for (int64_t r = begin; r < end; r += together) {
        const int64_t count = std::min(together, end - r);
        convert.widen(x + r * n, row, count * n);
        switch (kind) {
          case RowKind::kSoftmax: norm.softmax_rows(row, row, count, n, false); break;
          case RowKind::kLayer:
            norm.layer_norm_rows(row, scale, bias, row, count, n, epsilon, nullptr, nullptr);
            break;
          case RowKind::kRms:
            for (int64_t i = 0; i < count; ++i)
              norm.rms_norm_row(row + i * n, scale, row + i * n, n, epsilon);
            break;
        }
        convert.narrow(row, y + r * n, count * n);
      }
    });
  }
};

Result<BoundKernel> BindRows(const KernelCall& call, const BindOptions& options) {
  RowState state;
  state.kind = call.op == "Softmax"            ? RowKind::kSoftmax
               : call.op == "RMSNormalization" ? RowKind::kRms
                                               : RowKind::kLayer;
  EVOQ_ASSIGN(state.n, RowOf(call));
  state.rows = ElementsOf(call.inputs[0]) / state.n;
  state.grain = Grain(state.rows, static_cast<double>(state.n) * 0.5 + 5, options.threads);
  state.epsilon = call.attrs.Float("epsilon", 1e-5f);
  state.has_bias = call.has_input(2);
  state.isa = options.isa;
  return BoundKernel::Of(state);
}

}  // namespace

#define EVOQ_ROWS(symbol, kernel_name, op_name) \
  extern const KernelDef symbol = {             \
      .name = kernel_name,                      \
      .op = op_name,                            \
      .precision = Precision::kBf16,            \
      .peak = Peak::kMemory,                    \
      .reject = RejectRows,                     \
      .bind = BindRows,                         \
  };
EVOQ_ROWS(kSoftmaxBf16, "softmax_bf16", "Softmax")
EVOQ_ROWS(kLayerNormBf16, "layer_norm_bf16", "LayerNormalization")
EVOQ_ROWS(kRmsNormBf16, "rms_norm_bf16", "RMSNormalization")
#undef EVOQ_ROWS

}  // namespace evoq
