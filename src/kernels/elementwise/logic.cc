// Equal, Greater, GreaterOrEqual, Less, LessOrEqual, And, Or, Xor and Where with broadcasting, on
// plain types; Where also on quantized ones that are all the same.
#include "kernels/elementwise/logic.h"

#include "kernels/elementwise/broadcast.h"
#include "kernels/parallel.h"

namespace evoq {
namespace {

LogicKind KindOf(std::string_view op) {
#define EVOQ_LOGIC(name, definition) \
  if (op == #name) return LogicKind::k##name;
  EVOQ_LOGIC_LIST
#undef EVOQ_LOGIC
  return LogicKind::kEqual;
}

std::optional<LogicElement> ElementOf(DType dtype) {
  switch (dtype) {
    case DType::kBool:
    case DType::kUint8: return LogicElement::kUint8;
    case DType::kInt8: return LogicElement::kInt8;
    case DType::kInt32: return LogicElement::kInt32;
    case DType::kInt64: return LogicElement::kInt64;
    case DType::kFloat32: return LogicElement::kFloat32;
    default: return std::nullopt;
  }
}

std::optional<Reason> RejectCompare(const KernelCall& call) {
  if (auto unknown = RejectUnknownShapes(call)) return unknown;
  const TensorType &a = call.inputs[0], &b = call.inputs[1], &y = call.outputs[0];
  if (a.quantized() || b.quantized() || a.dtype != b.dtype || !ElementOf(a.dtype) ||
      y.dtype != DType::kBool) {
    return Reject(
        "types",
        "{} and {} to {}, expected plain bool, uint8, int8, int32, int64 or float32, to bool",
        a.ToString(), b.ToString(), y.ToString());
  }
  if (!PlanBroadcast(a.shape, b.shape, y.shape))
    return Reject("shape", "{} and {} to {}: no broadcast of at most 7 dimensions", a.ToString(),
                  b.ToString(), y.ToString());
  return std::nullopt;
}

struct CompareState {
  LogicKind kind;
  LogicElement element;
  int64_t bytes;  // of an element of a and b
  BroadcastPlan plan;
  Isa isa;
  int64_t grain;

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    const auto *a = static_cast<const std::byte*>(in[0]), *b = static_cast<const std::byte*>(in[1]);
    auto* y = static_cast<uint8_t*>(out[0]);
    const auto compare = LogicTableFor(isa).compare;
    context.pool.ParallelFor(plan.elements, grain, [&](int64_t begin, int64_t end) {
      plan.ForRows(begin, end, [&](int64_t at, const PerInput<2>& from, int64_t n) {
        compare(kind, element, a + from[0] * bytes, b + from[1] * bytes, y + at, n, plan.step[0],
                plan.step[1]);
      });
    });
  }
};

Result<BoundKernel> BindCompare(const KernelCall& call, const BindOptions& options) {
  const TensorType& a = call.inputs[0];
  CompareState state{KindOf(call.op),
                     *ElementOf(a.dtype),
                     DTypeBits(a.dtype) / 8,
                     *PlanBroadcast(a.shape, call.inputs[1].shape, call.outputs[0].shape),
                     options.isa,
                     1};
  state.grain = Grain(state.plan.elements, 0.1, options.threads);
  return BoundKernel::Of(state);
}

std::optional<BroadcastPlanOf<3>> PlanOf(const KernelCall& call) {
  return PlanBroadcastOf<3>({&call.inputs[0].shape, &call.inputs[1].shape, &call.inputs[2].shape},
                            call.outputs[0].shape);
}

// Bytes of an element that rows of Where take, or 0.
int BytesOf(DType dtype) {
  const int bits = DTypeBits(dtype);
  return bits == 8 || bits == 16 || bits == 32 || bits == 64 ? bits / 8 : 0;
}

std::optional<Reason> RejectWhere(const KernelCall& call) {
  if (auto unknown = RejectUnknownShapes(call)) return unknown;
  const TensorType& y = call.outputs[0];
  for (size_t i : {1, 2}) {
    TensorType as_y = call.inputs[i];
    as_y.shape = y.shape;
    if (as_y != y || BytesOf(y.dtype) == 0 || (y.quantized() && !y.quant->per_tensor()))
      return Reject("types", "input {} is {}, output {}, expected the same type of whole bytes", i,
                    call.inputs[i].ToString(), y.ToString());
  }
  if (call.inputs[0].dtype != DType::kBool)
    return Reject("types", "the condition is {}, expected bool", call.inputs[0].ToString());
  if (!PlanOf(call))
    return Reject("shape", "no broadcast of at most 7 dimensions to {}", y.ToString());
  return std::nullopt;
}

struct WhereState {
  int bytes;
  BroadcastPlanOf<3> plan;
  Isa isa;
  int64_t grain;

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    const auto* c = static_cast<const uint8_t*>(in[0]);
    const auto *a = static_cast<const std::byte*>(in[1]), *b = static_cast<const std::byte*>(in[2]);
    auto* y = static_cast<std::byte*>(out[0]);
    const auto select = LogicTableFor(isa).select;
    context.pool.ParallelFor(plan.elements, grain, [&](int64_t begin, int64_t end) {
      plan.ForRows(begin, end, [&](int64_t at, const PerInput<3>& from, int64_t n) {
        select(bytes, c + from[0], a + from[1] * bytes, b + from[2] * bytes, y + at * bytes, n,
               plan.step[0], plan.step[1], plan.step[2]);
      });
    });
  }
};

Result<BoundKernel> BindWhere(const KernelCall& call, const BindOptions& options) {
  WhereState state{BytesOf(call.outputs[0].dtype), *PlanOf(call), options.isa, 1};
  state.grain = Grain(state.plan.elements, 0.2, options.threads);
  return BoundKernel::Of(state);
}

}  // namespace

#define EVOQ_LOGIC(op_name, definition)         \
  extern const KernelDef k##op_name##Kernel = { \
      .name = #op_name,                         \
      .op = #op_name,                           \
      .precision = Precision::kAny,             \
      .peak = Peak::kMemory,                    \
      .reject = RejectCompare,                  \
      .bind = BindCompare,                      \
  };
EVOQ_LOGIC_LIST
#undef EVOQ_LOGIC
extern const KernelDef kWhereKernel = {
    .name = "Where",
    .op = "Where",
    .precision = Precision::kAny,
    .peak = Peak::kMemory,
    .reject = RejectWhere,
    .bind = BindWhere,
};

}  // namespace evoq
