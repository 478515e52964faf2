// Rows of every operator of kernels/math/unary.h: float32 by vector loops, quantized bytes by a
// 256-entry table that holds quantize(Apply(dequantize(q))).
#include "kernels/math/unary.h"

#include "kernels/call_util.h"
#include "kernels/elementwise/unary_call.h"
#include "kernels/in_place.h"
#include "kernels/math/unary_loops.h"
#include "kernels/parallel.h"
#include "kernels/quantize/axis.h"
#include "kernels/quantize/byte_table.h"
#include "kernels/requant.h"

namespace evoq {
namespace {

bool HasBounds(const KernelCall& call) { return call.op == "Clip"; }

}  // namespace

std::optional<Reason> RejectUnaryShapes(const KernelCall& call, DType bounds) {
  if (auto unknown = RejectUnknownShapes(call)) return unknown;
  if (call.inputs[0].shape != call.outputs[0].shape) {
    return Reject("shape", "{} -> {}", call.inputs[0].shape.ToString(),
                  call.outputs[0].shape.ToString());
  }
  for (size_t i = 1; i < call.inputs.size(); ++i) {
    if (!call.has_input(i)) continue;
    if (!HasBounds(call) || call.inputs[i] != TensorType(bounds, call.inputs[i].shape) ||
        ElementsOf(call.inputs[i]) != 1) {
      return Reject("types", "input {} is {}", i, call.inputs[i].ToString());
    }
  }
  return std::nullopt;
}

namespace {

std::optional<Reason> RejectFloat(const KernelCall& call) {
  if (auto why = RejectUnlessFloat(call)) return why;
  return RejectUnaryShapes(call, DType::kFloat32);
}

std::optional<Reason> RejectBytes(const KernelCall& call) {
  if (!QuantizedByte(call.inputs[0]) || !QuantizedByte(call.outputs[0])) {
    return Reject("types", "{} -> {}, expected uint8 or int8 with one scale each",
                  call.inputs[0].ToString(), call.outputs[0].ToString());
  }
  for (size_t i = 1; i < call.inputs.size(); ++i) {
    if (call.has_input(i) && call.constant(i) == nullptr)
      return Reject("not-constant", "input {} is computed at run time", i);
  }
  return RejectUnaryShapes(call, DType::kFloat32);
}

struct FloatState {
  Unary unary;
  bool low_input = false, high_input = false;
  Isa isa;
  int64_t elements, grain;

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    Unary now = unary;
    if (low_input) now.alpha = *static_cast<const float*>(in[1]);
    if (high_input) now.beta = *static_cast<const float*>(in[2]);
    const auto* x = static_cast<const float*>(in[0]);
    auto* y = static_cast<float*>(out[0]);
    context.pool.ParallelFor(elements, grain, [&](int64_t begin, int64_t end) {
      UnaryTableFor(isa).apply(now, x + begin, y + begin, end - begin);
    });
  }
};

Result<BoundKernel> BindFloat(const KernelCall& call, const BindOptions& options) {
  FloatState state;
  state.unary = UnaryFromAttrs(*UnaryKindFromOp(call.op), call.attrs);
  state.low_input = HasBounds(call) && call.has_input(1);
  state.high_input = HasBounds(call) && call.has_input(2);
  state.isa = options.isa;
  state.elements = ElementsOf(call.inputs[0]);
  state.grain = Grain(state.elements, 0.5, options.threads);
  return BoundKernel::Of(state);
}

Result<BoundKernel> BindBytes(const KernelCall& call, const BindOptions& options) {
  const TensorType &x = call.inputs[0], &y = call.outputs[0];
  Unary unary = UnaryFromAttrs(*UnaryKindFromOp(call.op), call.attrs);
  if (HasBounds(call) && call.has_input(1)) unary.alpha = call.constant(1)->data<float>()[0];
  if (HasBounds(call) && call.has_input(2)) unary.beta = call.constant(2)->data<float>()[0];
  return BindByteTable(x, y, options, [&](float v) { return Apply(unary, v); });
}

}  // namespace

#define EVOQ_UNARY(op_name, definition)             \
  extern const KernelDef kUnary##op_name##Byte = {  \
      .name = #op_name "_u8",                       \
      .op = #op_name,                               \
      .precision = Precision::kInt8,                \
      .peak = Peak::kMemory,                        \
      .reject = RejectBytes,                        \
      .bind = BindBytes,                            \
      .in_place = SameSizeInputs,                   \
  };                                                \
  extern const KernelDef kUnary##op_name##Float = { \
      .name = #op_name "_f32",                      \
      .op = #op_name,                               \
      .precision = Precision::kFloat32,             \
      .peak = Peak::kMemory,                        \
      .reject = RejectFloat,                        \
      .bind = BindFloat,                            \
      .in_place = SameSizeInputs,                   \
  };
EVOQ_UNARY_LIST
#undef EVOQ_UNARY

}  // namespace evoq
