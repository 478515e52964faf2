// Operators of one quantized byte tensor, by a table of what they give for each of the 256 bytes.
#pragma once

#include "kernels/call_util.h"
#include "kernels/parallel.h"
#include "kernels/quantize/axis.h"
#include "kernels/quantize/quantize.h"
#include "kernels/requant.h"

namespace evoq {

inline constexpr double kLookupNs = 0.05;  // of one byte

struct ByteTable {
  alignas(64) uint8_t table[256];
  Isa isa;
  int64_t elements, grain;

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    const auto* x = static_cast<const uint8_t*>(in[0]);
    auto* y = static_cast<uint8_t*>(out[0]);
    context.pool.ParallelFor(elements, grain, [&](int64_t begin, int64_t end) {
      QuantizeTableFor(isa).lookup(table, x + begin, y + begin, end - begin);
    });
  }
};

// y = quantize(f(dequantize(x))): x and y are uint8 or int8 with one scale each; float f(float).
template <typename Function>
BoundKernel BindByteTable(const TensorType& x, const TensorType& y, const BindOptions& options,
                          const Function& f) {
  ByteTable state;
  const IntegerRange range = RangeOf(y.dtype);
  for (int i = 0; i < 256; ++i) {
    const int32_t q = x.dtype == DType::kInt8 ? static_cast<int8_t>(i) : i;
    const float value = f(DequantizeValue(q, ScaleOf(x), ZeroOf(x)));
    state.table[i] =
        static_cast<uint8_t>(QuantizeValue(value, ScaleOf(y), ZeroOf(y), range.low, range.high));
  }
  state.isa = options.isa;
  state.elements = ElementsOf(x);
  state.grain = Grain(state.elements, kLookupNs, options.threads);
  return BoundKernel::Of(state);
}

}  // namespace evoq
