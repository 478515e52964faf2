// gather_dequantize: rows of a table stored in bytes, as float32: y[j, inner] = (x[indices[j],
// inner] - zero) * scale, with one scale or one per row. Indices as in kernels/move/gather.cc.
#include "kernels/parallel.h"
#include "kernels/quantize/axis.h"

namespace evoq {
namespace {

std::optional<Reason> RejectGather(const KernelCall& call) {
  if (auto unknown = RejectUnknownShapes(call)) return unknown;
  const TensorType &x = call.inputs[0], &indices = call.inputs[1], &y = call.outputs[0];
  const bool bytes = x.dtype == DType::kUint8 || x.dtype == DType::kInt8;
  if (!bytes || !x.quantized() || x.quant->block != 0 ||
      (!x.quant->per_tensor() && x.quant->axis != 0) || !PlainFloat(y))
    return Reject("types", "{} -> {}, expected bytes with one scale or one per row, and float32",
                  x.ToString(), y.ToString());
  if (indices.dtype != DType::kInt64 && indices.dtype != DType::kInt32)
    return Reject("types", "indices are {}, expected int64 or int32", indices.ToString());
  if (x.shape.rank() == 0 ||
      NormalizeAxis(call.attrs.Int("axis", 0), x.shape.rank()).value_or(-1) != 0)
    return Reject("attribute", "axis {}, expected 0", call.attrs.Int("axis", 0));
  const int64_t rows = x.shape[0].value;
  if (rows == 0 || ElementsOf(y) != ElementsOf(indices) * (ElementsOf(x) / rows))
    return Reject("shape", "{} at {} -> {}", x.ToString(), indices.ToString(), y.ToString());
  return std::nullopt;
}

struct GatherState {
  std::vector<float> scales;
  std::vector<int32_t> zeros;
  IntegerKind kind;
  Isa isa;
  int64_t rows, row, count, grain;
  bool wide;

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    const auto* x = static_cast<const uint8_t*>(in[0]);
    auto* y = static_cast<float*>(out[0]);
    context.pool.ParallelFor(count, grain, [&](int64_t begin, int64_t end) {
      for (int64_t j = begin; j < end; ++j) {
        int64_t index =
            wide ? static_cast<const int64_t*>(in[1])[j] : static_cast<const int32_t*>(in[1])[j];
        index = std::clamp<int64_t>(index < 0 ? index + rows : index, 0, rows - 1);
        const size_t s = scales.size() == 1 ? 0 : static_cast<size_t>(index);
        QuantizeTableFor(isa).dequantize(x + index * row, kind, y + j * row, row, scales[s],
                                         zeros[s]);
      }
    });
  }
};

Result<BoundKernel> BindGather(const KernelCall& call, const BindOptions& options) {
  const TensorType& x = call.inputs[0];
  const int64_t rows = x.shape[0].value, row = ElementsOf(x) / rows,
                count = ElementsOf(call.inputs[1]);
  return BoundKernel::Of(
      GatherState{x.quant->scales, x.quant->zero_points, *IntegerKindOf(x.dtype), options.isa, rows,
                  row, count, Grain(count, 5 + 0.1 * static_cast<double>(row), options.threads),
                  call.inputs[1].dtype == DType::kInt64});
}

}  // namespace

extern const KernelDef kGatherDequantize = {
    .name = "gather_dequantize",
    .op = "Gather",
    .precision = Precision::kInt8,
    .peak = Peak::kMemory,
    .reject = RejectGather,
    .bind = BindGather,
};

}  // namespace evoq
