// Rows of Add, Sub, Mul, Div, Max, Min, Pow and PRelu with broadcasting, for float32 and for
// quantized uint8. Add may carry a fused activation: any for float32, a piecewise-linear one for
// uint8.
#include "kernels/add_terms.h"
#include "kernels/elementwise/binary_call.h"
#include "kernels/elementwise/broadcast.h"
#include "kernels/in_place.h"
#include "kernels/math/unary_loops.h"
#include "kernels/parallel.h"

namespace evoq {

std::optional<BinaryKind> BinaryKindFromOp(std::string_view op) {
#define EVOQ_BINARY(name, definition) \
  if (op == #name) return BinaryKind::k##name;
  EVOQ_BINARY_LIST
#undef EVOQ_BINARY
  return std::nullopt;
}

std::optional<Reason> RejectBinaryShapes(const KernelCall& call) {
  if (call.inputs.size() != 2) return Reject("types", "{} inputs, expected 2", call.inputs.size());
  if (auto unknown = RejectUnknownShapes(call)) return unknown;
  if (!PlanBroadcast(call.inputs[0].shape, call.inputs[1].shape, call.outputs[0].shape)) {
    return Reject("shape", "{} and {} to {}: no broadcast of at most 7 dimensions",
                  call.inputs[0].shape.ToString(), call.inputs[1].shape.ToString(),
                  call.outputs[0].shape.ToString());
  }
  const auto activation = ActivationFromAttrs(call.attrs);
  if (!activation) return Reject("attribute", "{}", activation.error().message());
  if (activation->kind != ActivationKind::kNone && call.op != "Add") {
    return Reject("attribute", "{} with a fused activation, which only Add has", call.op);
  }
  return std::nullopt;
}

namespace {

std::optional<Reason> RejectFloat(const KernelCall& call) {
  for (const TensorType& type : call.inputs) {
    if (!PlainFloat(type))
      return Reject("types", "an input is {}, expected float32", type.ToString());
  }
  if (!PlainFloat(call.outputs[0]))
    return Reject("types", "output is {}, expected float32", call.outputs[0].ToString());
  return RejectBinaryShapes(call);
}

std::optional<Reason> RejectBytes(const KernelCall& call) {
  for (const TensorType& type : call.inputs) {
    if (!QuantizedU8(type))
      return Reject("types", "an input is {}, expected uint8 with one scale", type.ToString());
  }
  if (!QuantizedU8(call.outputs[0])) {
    return Reject("types", "output is {}, expected uint8 with one scale",
                  call.outputs[0].ToString());
  }
  if (auto rejection = RejectBinaryShapes(call)) return rejection;
  const ActivationKind kind = ActivationFromAttrs(call.attrs)->kind;
  if (!IsPiecewiseLinear(kind))
    return Reject("attribute", "activation {} is not piecewise linear", ActivationName(kind));
  return std::nullopt;
}

struct FloatState {
  BinaryKind kind;
  BroadcastPlan plan;
  std::optional<Unary> activation;
  Isa isa;
  int64_t grain;

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    const auto *a = static_cast<const float*>(in[0]), *b = static_cast<const float*>(in[1]);
    auto* y = static_cast<float*>(out[0]);
    const auto loop = BinaryTableFor(isa).f32;
    const auto apply = UnaryTableFor(isa).apply;
    const auto row = [&](const float* p, const float* q, float* to, int64_t n, int64_t a_step,
                         int64_t b_step) {
      loop(kind, p, q, to, n, a_step, b_step);
      if (activation) apply(*activation, to, to, n);
    };
    context.pool.ParallelFor(plan.elements, grain, [&](int64_t begin, int64_t end) {
      if (plan.inner >= kMiddleRow || plan.outer_rank == 0) {
        return plan.ForRows(begin, end, [&](int64_t at, const PerInput<2>& from, int64_t n) {
          row(a + from[0], b + from[1], y + at, n, plan.step[0], plan.step[1]);
        });
      }
      alignas(64) float a_rows[kWrittenOut], b_rows[kWrittenOut];
      plan.ForGroups(begin, end,
                     [&](int64_t at, const PerInput<2>& from, int64_t n, int64_t count,
                         const PerInput<2>& distance) {
                       RowsBehind<float> p(a + from[0], n, plan.step[0], distance[0], a_rows),
                           q(b + from[1], n, plan.step[1], distance[1], b_rows);
                       if (!GoTogether(n, p, q)) {
                         for (int64_t r = 0; r < count; ++r)
                           row(a + from[0] + r * distance[0], b + from[1] + r * distance[1],
                               y + at + r * n, n, plan.step[0], plan.step[1]);
                         return;
                       }
                       for (int64_t r = 0, rows; r < count; r += rows) {
                         rows = std::min(kWrittenOut / n, count - r);
                         row(p.At(r, rows), q.At(r, rows), y + at + r * n, rows * n, 1, 1);
                       }
                     });
    });
  }
};

Result<BoundKernel> BindFloat(const KernelCall& call, const BindOptions& options) {
  FloatState state;
  state.kind = *BinaryKindFromOp(call.op);
  state.plan = *PlanBroadcast(call.inputs[0].shape, call.inputs[1].shape, call.outputs[0].shape);
  EVOQ_ASSIGN(const Activation activation, ActivationFromAttrs(call.attrs));
  state.activation = UnaryFromActivation(activation);
  state.isa = options.isa;
  state.grain =
      Grain(state.plan.elements, state.kind == BinaryKind::kPow ? 10 : 0.2, options.threads);
  return BoundKernel::Of(state);
}

struct ByteState {
  BinaryByteArgs args;
  BroadcastPlan plan;
  Isa isa;
  int64_t grain;

  // How many rows to take as one: those of one operand follow one another, the other repeats one
  // that is no multiple of a vector.
  int64_t RowsTogether(int64_t n, int64_t count, const PerInput<2>& distance) const {
    const bool fits =
        (distance[0] == n && distance[1] == 0) || (distance[0] == 0 && distance[1] == n);
    const bool whole = plan.step[0] == 1 && plan.step[1] == 1;
    if (!fits || !whole || n >= kMiddleRow || n % 64 == 0) return 1;
    return std::min(kWrittenOut / n, count);
  }

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    const auto *a = static_cast<const uint8_t*>(in[0]), *b = static_cast<const uint8_t*>(in[1]);
    auto* y = static_cast<uint8_t*>(out[0]);
    const auto loop = BinaryTableFor(isa).u8;
    context.pool.ParallelFor(plan.elements, grain, [&](int64_t begin, int64_t end) {
      alignas(64) uint8_t rows[kWrittenOut];
      plan.ForGroups(begin, end,
                     [&](int64_t at, const PerInput<2>& from, int64_t n, int64_t count,
                         const PerInput<2>& distance) {
                       const int64_t together = RowsTogether(n, count, distance);
                       int64_t r = 0;
                       if (together > 1) {
                         RowsBehind<uint8_t> p(a + from[0], n, 1, distance[0], rows),
                             q(b + from[1], n, 1, distance[1], rows);
                         r = count / together * together;
                         loop(args, p.At(0, together), q.At(0, together), y + at,
                              {.n = together * n,
                               .rows = count / together,
                               .a_row = p.repeats() ? 0 : together * n,
                               .b_row = q.repeats() ? 0 : together * n});
                       }
                       if (r < count)
                         loop(args, a + from[0] + r * distance[0], b + from[1] + r * distance[1],
                              y + at + r * n,
                              {n, count - r, plan.step[0], plan.step[1], distance[0], distance[1]});
                     });
    });
  }
};

Result<BoundKernel> BindBytes(const KernelCall& call, const BindOptions& options) {
  ByteState state;
  const TensorType &a = call.inputs[0], &b = call.inputs[1], &y = call.outputs[0];
  EVOQ_ASSIGN(const Activation activation, ActivationFromAttrs(call.attrs));
  const BinaryKind kind = *BinaryKindFromOp(call.op);
  state.args = {.kind = kind,
                .scale_a = ScaleOf(a),
                .scale_b = ScaleOf(b),
                .zero_a = ZeroOf(a),
                .zero_b = ZeroOf(b),
                .scale_y = ScaleOf(y),
                .bounds = OutputBounds::Integer(activation, ScaleOf(y), ZeroOf(y), 0, 255)};
  if (kind == BinaryKind::kAdd) {
    const AddTerms terms(ScaleOf(a), ZeroOf(a), ScaleOf(b), ZeroOf(b), ScaleOf(y), ZeroOf(y));
    state.args.scale_a = terms.ratio_a;
    state.args.scale_b = terms.ratio_b;
    state.args.constant = terms.constant;
    state.args.middle = static_cast<float>(ZeroOf(y));
    state.args.bounds = AddBounds(activation, ScaleOf(y), ZeroOf(y), 0, 255);
  } else if (kind == BinaryKind::kMul) {
    state.args.scale_a = LinearMultiplier(ScaleOf(a), ScaleOf(b), ScaleOf(y));
    state.args.scale_b = 0;
  }
  state.plan = *PlanBroadcast(a.shape, b.shape, y.shape);
  state.isa = options.isa;
  state.grain = Grain(state.plan.elements, 0.15, options.threads);
  return BoundKernel::Of(state);
}

}  // namespace

#define EVOQ_BINARY_ROWS(op_name, prefix)      \
  extern const KernelDef k##op_name##Byte = {  \
      .name = prefix "_u8",                    \
      .op = #op_name,                          \
      .precision = Precision::kInt8,           \
      .peak = Peak::kMemory,                   \
      .reject = RejectBytes,                   \
      .bind = BindBytes,                       \
      .in_place = SameSizeInputs,              \
  };                                           \
  extern const KernelDef k##op_name##Float = { \
      .name = prefix "_f32",                   \
      .op = #op_name,                          \
      .precision = Precision::kFloat32,        \
      .peak = Peak::kMemory,                   \
      .reject = RejectFloat,                   \
      .bind = BindFloat,                       \
      .in_place = SameSizeInputs,              \
  };
EVOQ_BINARY_ROWS(Add, "add")
EVOQ_BINARY_ROWS(Sub, "sub")
EVOQ_BINARY_ROWS(Mul, "mul")
EVOQ_BINARY_ROWS(Div, "div")
EVOQ_BINARY_ROWS(Max, "max")
EVOQ_BINARY_ROWS(Min, "min")
EVOQ_BINARY_ROWS(Pow, "pow")
EVOQ_BINARY_ROWS(PRelu, "prelu")
#undef EVOQ_BINARY_ROWS

}  // namespace evoq
