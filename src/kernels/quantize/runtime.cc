// QuantizeLinear and DequantizeLinear whose scale and zero point are inputs: plain integers.
#include <utility>

#include "kernels/parallel.h"
#include "kernels/quantize/axis.h"
#include "kernels/requant.h"

namespace evoq {
namespace {

std::optional<AxisView> ViewOf(const KernelCall& call) {
  return AxisViewOf(call.inputs[0].shape, call.attrs.Int("axis", 1), ElementsOf(call.inputs[1]));
}

// What both directions ask: a float32 scale, a zero point of the integers' type and as many, no
// blocks.
std::optional<Reason> RejectScales(const KernelCall& call, const TensorType& integers) {
  if (!call.has_input(1)) return Reject("types", "no scale input: it is in the type");
  if (auto unknown = RejectUnknownShapes(call)) return unknown;
  if (!PlainFloat(call.inputs[1]))
    return Reject("types", "scale is {}, expected float32", call.inputs[1].ToString());
  if (!IntegerKindOf(integers.dtype) || integers.quantized()) {
    return Reject("types", "integers are {}, expected plain ones of 8, 16 or 32 bits",
                  integers.ToString());
  }
  if (call.has_input(2) && (call.inputs[2].dtype != integers.dtype ||
                            ElementsOf(call.inputs[2]) != ElementsOf(call.inputs[1]))) {
    return Reject("types", "zero point is {} for integers {} and a scale {}",
                  call.inputs[2].ToString(), integers.ToString(), call.inputs[1].ToString());
  }
  if (call.attrs.Int("block_size") != 0 || !ViewOf(call)) {
    return Reject("shape", "scales {} for {}, expected one or one per index of the axis",
                  call.inputs[1].shape.ToString(), call.inputs[0].shape.ToString());
  }
  if (call.inputs[0].shape != call.outputs[0].shape) {
    return Reject("shape", "{} -> {}", call.inputs[0].shape.ToString(),
                  call.outputs[0].shape.ToString());
  }
  return std::nullopt;
}

std::optional<Reason> RejectQuantize(const KernelCall& call) {
  if (!PlainFloat(call.inputs[0]))
    return Reject("types", "input 0 is {}, expected float32", call.inputs[0].ToString());
  if (call.outputs[0].dtype == DType::kInt32)
    return Reject("types", "output is int32, expected 8 or 16 bits");
  return RejectScales(call, call.outputs[0]);
}

std::optional<Reason> RejectDequantize(const KernelCall& call) {
  if (!PlainFloat(call.outputs[0]))
    return Reject("types", "output is {}, expected float32", call.outputs[0].ToString());
  return RejectScales(call, call.inputs[0]);
}

struct RuntimeState {
  AxisView view;
  Stored stored;  // what is read or written
  bool quantize, has_zero;
  Isa isa;
  int64_t elements, grain;

  int32_t Zero(const void* zeros, int64_t i) const {
    if (!has_zero) return 0;
    switch (stored.kind) {
      case IntegerKind::kUint8: return static_cast<const uint8_t*>(zeros)[i];
      case IntegerKind::kInt8: return static_cast<const int8_t*>(zeros)[i];
      case IntegerKind::kUint16: return static_cast<const uint16_t*>(zeros)[i];
      case IntegerKind::kInt16: return static_cast<const int16_t*>(zeros)[i];
      case IntegerKind::kInt32: break;
    }
    return static_cast<const int32_t*>(zeros)[i];
  }

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    const QuantizeTable& table = QuantizeTableFor(isa);
    const auto* scales = static_cast<const float*>(in[1]);
    auto* zeros = reinterpret_cast<int32_t*>(context.scratch);
    for (int64_t i = 0; i < view.axis; ++i) zeros[i] = Zero(has_zero ? in[2] : nullptr, i);
    const auto* x = static_cast<const float*>(in[0]);
    const auto* integers = static_cast<const std::byte*>(in[0]);
    auto* y = static_cast<float*>(out[0]);
    context.pool.ParallelFor(elements, grain, [&](int64_t begin, int64_t end) {
      view.ForRuns(
          begin, end,
          [&](int64_t at, int64_t n, int64_t i) {
            if (quantize) return stored.One(table, x + at, out[0], at, n, scales[i], zeros[i]);
            table.dequantize(integers + at * BytesOf(stored.kind), stored.kind, y + at, n,
                             scales[i], zeros[i]);
          },
          [&](int64_t at, int64_t n, int64_t i) {
            if (quantize) return stored.Each(table, x + at, out[0], at, n, scales + i, zeros + i);
            table.dequantize_each(integers + at * BytesOf(stored.kind), stored.kind, y + at, n,
                                  scales + i, zeros + i);
          });
    });
  }
};

Result<BoundKernel> BindRuntime(const KernelCall& call, const BindOptions& options) {
  const bool quantize = call.op == "QuantizeLinear";
  const int64_t elements = ElementsOf(call.inputs[0]);
  const AxisView view = *ViewOf(call);
  const DType integers = quantize ? call.outputs[0].dtype : call.inputs[0].dtype;
  return BoundKernel::Of(
      RuntimeState{view, Stored::Of(integers), quantize, call.has_input(2), options.isa, elements,
                   Grain(elements, 0.15, options.threads)},
      static_cast<size_t>(view.axis) * sizeof(int32_t));
}

}  // namespace

extern const KernelDef kQuantizeRuntime = {
    .name = "quantize_runtime",
    .op = "QuantizeLinear",
    .precision = Precision::kInt8,
    .peak = Peak::kMemory,
    .reject = RejectQuantize,
    .bind = BindRuntime,
};
extern const KernelDef kDequantizeRuntime = {
    .name = "dequantize_runtime",
    .op = "DequantizeLinear",
    .precision = Precision::kInt8,
    .peak = Peak::kMemory,
    .reject = RejectDequantize,
    .bind = BindRuntime,
};
}  // namespace evoq
