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
    return Reject("types",
                  "input 0 is {}, expected float32 or quantized integers of 8, 16 or 32 bits",
                  x.ToString());
  }
  if (!IntegerKindOf(y.dtype) || y.dtype == DType::kInt32 || !ScalesOf(y)) {
    return Reject("types", "output is {}, expected quantized integers of 8 or 16 bits",
                  y.ToString());
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
    return Reject("types", "{} -> {}, expected quantized integers of 8, 16 or 32 bits to float32",
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

// What floats become.
struct Target {
  BoundScales scales;
  std::vector<Divisor> by;
  Stored stored;

  static Target Of(const TensorType& type) {
    BoundScales scales = *ScalesOf(type);
    std::vector<Divisor> by = DivisorsOf(scales);
    return {std::move(scales), std::move(by), Stored::Of(type.dtype)};
  }

  // Elements [begin, end) of y from those that begin at x.
  void Quantize(const QuantizeTable& table, const float* x, void* y, int64_t begin,
                int64_t end) const {
    scales.view.ForRuns(
        begin, end,
        [&](int64_t at, int64_t n, int64_t i) {
          stored.One(table, x + (at - begin), y, at, n, by[i], scales.zeros[i]);
        },
        [&](int64_t at, int64_t n, int64_t i) {
          stored.Each(table, x + (at - begin), y, at, n, &scales.scales[i], &scales.zeros[i]);
        });
  }
};

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
  Target to;
  Isa isa;
  int64_t elements, grain;

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    const auto* x = static_cast<const float*>(in[0]);
    context.pool.ParallelFor(elements, grain, [&](int64_t begin, int64_t end) {
      to.Quantize(QuantizeTableFor(isa), x + begin, out[0], begin, end);
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
  BoundScales from;
  Target to;
  IntegerKind kind;
  Isa isa;
  int64_t elements, grain;

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    const QuantizeTable& table = QuantizeTableFor(isa);
    context.pool.ParallelFor(elements, grain, [&](int64_t begin, int64_t end) {
      float block[1024];
      for (int64_t at = begin; at < end; at += 1024) {
        const int64_t stop = std::min<int64_t>(at + 1024, end);
        DequantizePart(table, from, kind, in[0], block, at, stop);
        to.Quantize(table, block, out[0], at, stop);
      }
    });
  }
};

Result<BoundKernel> BindQuantize(const KernelCall& call, const BindOptions& options) {
  const TensorType &x = call.inputs[0], &y = call.outputs[0];
  const int64_t elements = ElementsOf(x), grain = Grain(elements, 0.15, options.threads);
  if (PlainFloat(x))
    return BoundKernel::Of(QuantizeState{Target::Of(y), options.isa, elements, grain});
  if (QuantizedByte(x) && QuantizedByte(y))
    return BindByteTable(x, y, options, [](float v) { return v; });
  return BoundKernel::Of(RequantizeState{*ScalesOf(x), Target::Of(y), *IntegerKindOf(x.dtype),
                                         options.isa, elements, grain});
}

Result<BoundKernel> BindDequantize(const KernelCall& call, const BindOptions& options) {
  const TensorType& x = call.inputs[0];
  const int64_t elements = ElementsOf(x);
  return BoundKernel::Of(DequantizeState{*ScalesOf(x), *IntegerKindOf(x.dtype), options.isa,
                                         elements, Grain(elements, 0.1, options.threads)});
}

}  // namespace

extern const KernelDef kQuantizeKernel = {
    .name = "quantize",
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
