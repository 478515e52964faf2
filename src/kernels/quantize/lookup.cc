// evoq::Lookup: y = table[x] by bytes.
#include "kernels/quantize/byte_table.h"

namespace evoq {
namespace {

std::optional<Reason> RejectLookup(const KernelCall& call) {
  if (auto unknown = RejectUnknownShapes(call)) return unknown;
  const TensorType &x = call.inputs[0], &table = call.inputs[1], &y = call.outputs[0];
  if (!QuantizedU8(x) || !QuantizedU8(y)) {
    return Reject("types", "{} -> {}, expected uint8 with one scale each", x.ToString(),
                  y.ToString());
  }
  if (table.dtype != DType::kUint8 || ElementsOf(table) != 256) {
    return Reject("types", "table is {}, expected uint8[256]", table.ToString());
  }
  if (x.shape != y.shape)
    return Reject("shape", "{} -> {}", x.shape.ToString(), y.shape.ToString());
  return std::nullopt;
}

struct LookupState {
  Isa isa;
  int64_t elements, grain;

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    const auto* x = static_cast<const uint8_t*>(in[0]);
    const auto* table = static_cast<const uint8_t*>(in[1]);
    auto* y = static_cast<uint8_t*>(out[0]);
    context.pool.ParallelFor(elements, grain, [&](int64_t begin, int64_t end) {
      QuantizeTableFor(isa).lookup(table, x + begin, y + begin, end - begin);
    });
  }
};

Result<BoundKernel> BindLookup(const KernelCall& call, const BindOptions& options) {
  const int64_t elements = ElementsOf(call.inputs[0]);
  return BoundKernel::Of(
      LookupState{options.isa, elements, Grain(elements, kLookupNs, options.threads)});
}

}  // namespace

extern const KernelDef kLookupByte = {
    .name = "lookup_u8",
    .op = "Lookup",
    .precision = Precision::kInt8,
    .peak = Peak::kMemory,
    .reject = RejectLookup,
    .bind = BindLookup,
};

}  // namespace evoq
