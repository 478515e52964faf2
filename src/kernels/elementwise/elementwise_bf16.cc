// Rows of one and of two bfloat16 values: chunks are widened to float32 on the stack, computed by
// the float32 loops of this instruction set and narrowed. Add may carry any fused activation; it is
// rounded once, after it.
#include "kernels/bf16/bf16.h"
#include "kernels/call_util.h"
#include "kernels/elementwise/binary_call.h"
#include "kernels/elementwise/broadcast.h"
#include "kernels/elementwise/unary_call.h"
#include "kernels/in_place.h"
#include "kernels/math/unary_loops.h"
#include "kernels/parallel.h"

namespace evoq {
namespace {

constexpr int64_t kChunk = 1024;  // floats of a buffer: three of them stay in the L1 cache

std::optional<Reason> RejectBinary(const KernelCall& call) {
  if (auto why = RejectUnlessBf16(call, call.inputs.size())) return why;
  return RejectBinaryShapes(call);
}

struct BinaryState {
  BinaryKind kind;
  BroadcastPlan plan;
  std::optional<Unary> activation;
  Isa isa;
  int64_t grain;

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    const auto *a = static_cast<const uint16_t*>(in[0]), *b = static_cast<const uint16_t*>(in[1]);
    auto* y = static_cast<uint16_t*>(out[0]);
    context.pool.ParallelFor(plan.elements, grain, [&](int64_t begin, int64_t end) {
      if (plan.inner >= kMiddleRow || plan.outer_rank == 0) {
        return plan.ForRows(begin, end, [&](int64_t at, const PerInput<2>& from, int64_t n) {
          Row(a + from[0], b + from[1], y + at, n, plan.step);
        });
      }
      uint16_t a_rows[kWrittenOut], b_rows[kWrittenOut];
      plan.ForGroups(begin, end,
                     [&](int64_t at, const PerInput<2>& from, int64_t n, int64_t count,
                         const PerInput<2>& distance) {
                       RowsBehind<uint16_t> p(a + from[0], n, plan.step[0], distance[0], a_rows),
                           q(b + from[1], n, plan.step[1], distance[1], b_rows);
                       const bool together = GoTogether(n, p, q);
                       const int64_t most = together ? kWrittenOut / n : 1;
                       for (int64_t r = 0, rows; r < count; r += rows) {
                         rows = std::min(most, count - r);
                         if (together) {
                           Row(p.At(r, rows), q.At(r, rows), y + at + r * n, rows * n, {1, 1});
                         } else {
                           Row(a + from[0] + r * distance[0], b + from[1] + r * distance[1],
                               y + at + r * n, n, plan.step);
                         }
                       }
                     });
    });
  }

  void Row(const uint16_t* a, const uint16_t* b, uint16_t* y, int64_t n,
           const PerInput<2>& step) const {
    for (int64_t i = 0; i < n; i += kChunk)
      Chunk(a + i * step[0], b + i * step[1], y + i, std::min(kChunk, n - i), step);
  }

  void Chunk(const uint16_t* a, const uint16_t* b, uint16_t* y, int64_t n,
             const PerInput<2>& step) const {
    alignas(64) float wide_a[kChunk], wide_b[kChunk], v[kChunk];
    const Bf16Table& rows = Bf16TableFor(isa);
    rows.widen(a, wide_a, step[0] == 0 ? 1 : n);
    rows.widen(b, wide_b, step[1] == 0 ? 1 : n);
    BinaryTableFor(isa).f32(kind, wide_a, wide_b, v, n, step[0], step[1]);
    if (activation) UnaryTableFor(isa).apply(*activation, v, v, n);
    rows.narrow(v, y, n);
  }
};

Result<BoundKernel> BindBinary(const KernelCall& call, const BindOptions& options) {
  BinaryState state;
  state.kind = *BinaryKindFromOp(call.op);
  state.plan = *PlanBroadcast(call.inputs[0].shape, call.inputs[1].shape, call.outputs[0].shape);
  EVOQ_ASSIGN(const Activation activation, ActivationFromAttrs(call.attrs));
  state.activation = UnaryFromActivation(activation);
  state.isa = options.isa;
  state.grain =
      Grain(state.plan.elements, state.kind == BinaryKind::kPow ? 10 : 0.2, options.threads);
  return BoundKernel::Of(state);
}

std::optional<Reason> RejectUnary(const KernelCall& call) {
  if (auto why = RejectUnlessBf16(call, call.inputs.size())) return why;
  return RejectUnaryShapes(call, DType::kBfloat16);
}

struct UnaryState {
  Unary unary;
  bool low_input = false, high_input = false;
  Isa isa;
  int64_t elements, grain;

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    Unary now = unary;
    if (low_input) now.alpha = Bfloat16ToFloat(*static_cast<const uint16_t*>(in[1]));
    if (high_input) now.beta = Bfloat16ToFloat(*static_cast<const uint16_t*>(in[2]));
    const auto* x = static_cast<const uint16_t*>(in[0]);
    auto* y = static_cast<uint16_t*>(out[0]);
    const Bf16Table& rows = Bf16TableFor(isa);
    context.pool.ParallelFor(elements, grain, [&](int64_t begin, int64_t end) {
      alignas(64) float v[kChunk];
      for (int64_t i = begin; i < end; i += kChunk) {
        const int64_t n = std::min(kChunk, end - i);
        rows.widen(x + i, v, n);
        UnaryTableFor(isa).apply(now, v, v, n);
        rows.narrow(v, y + i, n);
      }
    });
  }
};

Result<BoundKernel> BindUnary(const KernelCall& call, const BindOptions& options) {
  UnaryState state;
  state.unary = UnaryFromAttrs(*UnaryKindFromOp(call.op), call.attrs);
  state.low_input = call.has_input(1);
  state.high_input = call.has_input(2);
  state.isa = options.isa;
  state.elements = ElementsOf(call.inputs[0]);
  state.grain = Grain(state.elements, 0.5, options.threads);
  return BoundKernel::Of(state);
}

}  // namespace

#define EVOQ_BINARY_ROW(op_name, prefix)      \
  extern const KernelDef k##op_name##Bf16 = { \
      .name = prefix "_bf16",                 \
      .op = #op_name,                         \
      .precision = Precision::kBf16,          \
      .peak = Peak::kMemory,                  \
      .reject = RejectBinary,                 \
      .bind = BindBinary,                     \
      .in_place = SameSizeInputs,             \
  };
EVOQ_BINARY_ROW(Add, "add")
EVOQ_BINARY_ROW(Sub, "sub")
EVOQ_BINARY_ROW(Mul, "mul")
EVOQ_BINARY_ROW(Div, "div")
EVOQ_BINARY_ROW(Max, "max")
EVOQ_BINARY_ROW(Min, "min")
EVOQ_BINARY_ROW(Pow, "pow")
EVOQ_BINARY_ROW(PRelu, "prelu")
#undef EVOQ_BINARY_ROW

#define EVOQ_UNARY(op_name, definition)            \
  extern const KernelDef kUnary##op_name##Bf16 = { \
      .name = #op_name "_bf16",                    \
      .op = #op_name,                              \
      .precision = Precision::kBf16,               \
      .peak = Peak::kMemory,                       \
      .reject = RejectUnary,                       \
      .bind = BindUnary,                           \
      .in_place = SameSizeInputs,                  \
  };
EVOQ_UNARY_LIST
#undef EVOQ_UNARY

}  // namespace evoq
