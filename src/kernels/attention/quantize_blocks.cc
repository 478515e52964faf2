// evoq::DynamicQuantizeBlocks: rows of keys and values as they come into an int8 cache.
#include "base/math.h"
#include "kernels/attention/attention.h"
#include "kernels/call_util.h"
#include "kernels/parallel.h"
#include "tensor/half.h"

namespace evoq {
namespace {

std::optional<Reason> RejectBlocks(const KernelCall& call) {
  if (auto unknown = RejectUnknownShapes(call)) return unknown;
  if (!PlainFloat(call.inputs[0]))
    return Reject("types", "input 0 is {}, expected float32", call.inputs[0].ToString());
  if (call.outputs.size() != 2 || call.outputs[0].dtype != DType::kInt8 ||
      call.outputs[1].dtype != DType::kFloat16)
    return Reject("types", "expected two outputs that are read, int8 and float16");
  return std::nullopt;
}

struct BlocksState {
  Isa isa;
  int64_t rows, size, block, grain;

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    const AttentionTable& table = AttentionTableFor(isa);
    const int64_t blocks = CeilDiv(size, block);
    context.pool.ParallelFor(rows, grain, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const float* const x = static_cast<const float*>(in[0]) + row * size;
        int8_t* const q = static_cast<int8_t*>(out[0]) + row * size;
        uint16_t* const scales = static_cast<uint16_t*>(out[1]) + row * blocks;
        for (int64_t i = 0; i < blocks; ++i) {
          const int64_t at = i * block, n = std::min(block, size - at);
          scales[i] = HalfAtLeast(table.largest(x + at, n) / 127.0f);
          const float scale = HalfToFloat(scales[i]);
          if (scale == 0) {
            std::fill_n(q + at, n, int8_t{0});
          } else {
            table.quantize(x + at, scale, q + at, n);
          }
        }
      }
    });
  }
};

Result<BoundKernel> BindBlocks(const KernelCall& call, const BindOptions& options) {
  const int64_t size = call.inputs[0].shape.sizes().back(), elements = ElementsOf(call.inputs[0]);
  const int64_t rows = size == 0 ? 0 : elements / size;
  return BoundKernel::Of(
      BlocksState{options.isa, rows, size, call.attrs.Int("block_size"),
                  Grain(rows, 0.3 * static_cast<double>(size) + 5, options.threads)});
}

}  // namespace

extern const KernelDef kDynamicQuantizeBlocksKernel = {
    .name = "quantize_blocks",
    .op = "DynamicQuantizeBlocks",
    .precision = Precision::kInt8,
    .peak = Peak::kMemory,
    .reject = RejectBlocks,
    .bind = BindBlocks,
};

}  // namespace evoq
