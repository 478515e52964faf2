#include "kernels/gemm/matmul_shape.h"

#include <limits>

#include "base/math.h"
#include "kernels/call_util.h"
#include "kernels/gemm/blocks/block_data.h"
#include "kernels/gemm/matmul_batch.h"

namespace evoq {

std::optional<Reason> ReadMatMulShape(const KernelCall& call, MatMulShape& s) {
  std::vector<int64_t> a = call.inputs[0].shape.sizes(), b = call.inputs[1].shape.sizes();
  if (a.empty() || b.empty()) return Reject("shape", "a scalar operand");
  if (a.size() == 1) a.insert(a.begin(), 1);
  if (b.size() == 1) b.push_back(1);
  s.m = a[a.size() - 2], s.k = a.back(), s.n = b.back();
  const std::vector<int64_t> a_batch(a.begin(), a.end() - 2), b_batch(b.begin(), b.end() - 2);
  const std::vector<int64_t> batch =
      BroadcastBatch(a_batch, b_batch).value_or(std::vector<int64_t>{-1});
  const auto count = CheckedProduct(batch), a_count = CheckedProduct(a_batch),
             b_count = CheckedProduct(b_batch);
  const int64_t y_sizes[] = {count.value_or(-1), s.m, s.n};
  if (b[b.size() - 2] != s.k || !a_count || !b_count ||
      CheckedProduct(y_sizes) != call.outputs[0].shape.elements())
    return Reject("shape", "{} * {} -> {}", call.inputs[0].ToString(), call.inputs[1].ToString(),
                  call.outputs[0].ToString());
  if (call.has_input(2) && call.inputs[2].shape != Shape({s.n}))
    return Reject("shape", "bias {}", call.inputs[2].ToString());
  if (call.has_input(3) && call.inputs[3].shape != call.outputs[0].shape)
    return Reject("shape", "residual {}", call.inputs[3].ToString());
  s.b_count = *b_count;
  if (*b_count == 1 && *a_count == *count) {  // one matrix b: all rows of a in one product
    s.m *= *count;
    s.batch = {{0, 0}};
    return std::nullopt;
  }
  if (*count > std::numeric_limits<int32_t>::max()) return Reject("shape", "a batch of {}", *count);
  for (int64_t i = 0; i < *count; ++i)
    s.batch.push_back({BatchIndex(i, batch, a_batch), BatchIndex(i, batch, b_batch)});
  return std::nullopt;
}

std::optional<Reason> RejectDataBlock(const KernelCall& call) {
  const int64_t block = call.attrs.Int(kDataBlock, 0);
  if (block == 0) return std::nullopt;
  return Reject("attribute", "the data is rounded to int8 in blocks of {}", block);
}

}  // namespace evoq
