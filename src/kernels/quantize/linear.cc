// QuantizeLinear and DequantizeLinear of one input: scales are in the types.
#include "kernels/parallel.h"
#include "kernels/quantize/axis.h"
#include "kernels/quantize/byte_table.h"
#include "kernels/requant.h"

namespace evoq {
namespace {

std::optional<Reason> RejectQuantize(const KernelCall& call) {
  const TensorType &x = call.inputs[0], &y = call.outputs[0];
  if (call.has_input(1)) return Reject("types", "the scale is an input");
  if (auto unknown = RejectUnknownShapes(call)) return unknown;
  if (!PlainFloat(x) && !(IntegerKindOf(x.dtype) && ScalesOf(x))) {
    return Reject("types", "input 0 is {}, expected float32 or quantized uint8, int8, int32",
                  x.ToString());
  }
  if ((y.dtype != DType::kUint8 && y.dtype != DType::kInt8) || !ScalesOf(y)) {
    return Reject("types", "output is {}, expected quantized uint8 or int8", y.ToString());
  }
  if (x.shape != y.shape)
    return Reject("shape", "{} -> {}", x.shape.ToString(), y.shape.ToString());
  return std::nullopt;
}

std::optional<Reason> RejectDequantize(const KernelCall& call) {
  const TensorType &x = call.inputs[0], &y = call.outputs[0];
  if (call.has_input(1)) return Reject("types", "the scale is an input");
  if (auto unknown = RejectUnknownShapes(call)) return unknown;
  if (!IntegerKindOf(x.dtype) || !ScalesOf(x) || !PlainFloat(y)) {
    return Reject("types", "{} -> {}, expected quantized uint8, int8 or int32 to float32",
                  x.ToString(), y.ToString());
  }
  if (x.shape != y.shape)
    return Reject("shape", "{} -> {}", x.shape.ToString(), y.shape.ToString());
  return std::nullopt;
}

// Those of a tensor's scales.
std::vector<Divisor> DivisorsOf(const BoundScales& to) {
  std::vector<Divisor> divisors;
  for (float scale : to.scales) divisors.push_back(Divisor::Of(scale));
  return divisors;
}

void QuantizePart(const QuantizeTable& table, const BoundScales& to, const std::vector<Divisor>& by,
                  ByteRange range, const float* x, uint8_t* y, int64_t begin, int64_t end) {
  to.view.ForRuns(
      begin, end,
      [&](int64_t at, int64_t n, int64_t i) {
        table.quantize(x + (at - begin), y + at, n, by[i], to.zeros[i], range);
      },
      [&](int64_t at, int64_t n, int64_t i) {
        table.quantize_each(x + (at - begin), y + at, n, &to.scales[i], &to.zeros[i], range);
      });
}
void DequantizePart(const QuantizeTable& table, const BoundScales& from, IntegerKind kind,
                    const void* x, float* y, int64_t begin, int64_t end) {
  const auto source = [&](int64_t at) {
    return static_cast<const std::byte*>(x) + at * BytesOf(kind);
  };
  from.view.ForRuns(
      begin, end,
      [&](int64_t at, int64_t n, int64_t i) {
        table.dequantize(source(at), kind, y + (at - begin), n, from.scales[i], from.zeros[i]);
      },
      [&](int64_t at, int64_t n, int64_t i) {
        table.dequantize_each(source(at), kind, y + (at - begin), n, &from.scales[i],
                              &from.zeros[i]);
      });
}

struct QuantizeState {
  BoundScales to;
  std::vector<Divisor> by;
  ByteRange range;
  Isa isa;
  int64_t elements, grain;

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    const auto* x = static_cast<const float*>(in[0]);
    context.pool.ParallelFor(elements, grain, [&](int64_t begin, int64_t end) {
      QuantizePart(QuantizeTableFor(isa), to, by, range, x + begin, static_cast<uint8_t*>(out[0]),
                   begin, end);
    });
  }
};

struct DequantizeState {
  BoundScales from;
  IntegerKind kind;
  Isa isa;
  int64_t elements, grain;

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    auto* y = static_cast<float*>(out[0]);
    context.pool.ParallelFor(elements, grain, [&](int64_t begin, int64_t end) {
      DequantizePart(QuantizeTableFor(isa), from, kind, in[0], y + begin, begin, end);
    });
  }
};

// Integers to integers through float32, a block at a time.
struct RequantizeState {
  BoundScales from, to;
  std::vector<Divisor> by;
  IntegerKind kind;
  ByteRange range;
  Isa isa;
  int64_t elements, grain;

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    const QuantizeTable& table = QuantizeTableFor(isa);
    context.pool.ParallelFor(elements, grain, [&](int64_t begin, int64_t end) {
      float block[1024];
      for (int64_t at = begin; at < end; at += 1024) {
        const int64_t stop = std::min<int64_t>(at + 1024, end);
        DequantizePart(table, from, kind, in[0], block, at, stop);
        QuantizePart(table, to, by, range, block, static_cast<uint8_t*>(out[0]), at, stop);
      }
    });
  }
};

Result<BoundKernel> BindQuantize(const KernelCall& call, const BindOptions& options) {
  const TensorType &x = call.inputs[0], &y = call.outputs[0];
  const int64_t elements = ElementsOf(x), grain = Grain(elements, 0.15, options.threads);
  if (PlainFloat(x))
    return BoundKernel::Of(QuantizeState{*ScalesOf(y), DivisorsOf(*ScalesOf(y)), RangeOf(y.dtype),
                                         options.isa, elements, grain});
  if (QuantizedByte(x) && QuantizedByte(y))
    return BindByteTable(x, y, options, [](float v) { return v; });
  return BoundKernel::Of(RequantizeState{*ScalesOf(x), *ScalesOf(y), DivisorsOf(*ScalesOf(y)),
                                         *IntegerKindOf(x.dtype), RangeOf(y.dtype), options.isa,
                                         elements, grain});
}

Result<BoundKernel> BindDequantize(const KernelCall& call, const BindOptions& options) {
  const TensorType& x = call.inputs[0];
  const int64_t elements = ElementsOf(x);
  return BoundKernel::Of(DequantizeState{*ScalesOf(x), *IntegerKindOf(x.dtype), options.isa,
                                         elements, Grain(elements, 0.1, options.threads)});
}

}  // namespace

extern const KernelDef kQuantizeByte = {
    .name = "quantize_u8",
    .op = "QuantizeLinear",
    .precision = Precision::kInt8,
    .peak = Peak::kMemory,
    .reject = RejectQuantize,
    .bind = BindQuantize,
};
extern const KernelDef kDequantizeKernel = {
    .name = "dequantize",
    .op = "DequantizeLinear",
    .precision = Precision::kInt8,
    .peak = Peak::kMemory,
    .reject = RejectDequantize,
    .bind = BindDequantize,
};

}  // namespace evoq
