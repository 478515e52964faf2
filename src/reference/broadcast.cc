#include "reference/broadcast.h"

namespace evoq {

void ForEachBroadcastRow(const std::vector<int64_t>& a, const std::vector<int64_t>& b,
                         const std::vector<int64_t>& y,
                         void (*row)(const void* context, const BroadcastRow& run),
                         const void* context) {
  if (a == y && b == y) {
    int64_t total = 1;
    for (int64_t s : y) total *= s;
    return row(context, {0, 0, 1, 0, 1, total});
  }
  std::vector<int64_t> outer = y, a_strides = BroadcastStrides(a, y),
                       b_strides = BroadcastStrides(b, y);
  int64_t count = 1, a_step = 0, b_step = 0;
  while (!outer.empty()) {  // joins trailing axes that both operands walk evenly
    const int64_t size = outer.back(), next_a = a_strides.back(), next_b = b_strides.back();
    if (size != 1) {
      const bool even = count == 1 || (next_a == a_step * count && next_b == b_step * count);
      if (!even) break;
      if (count == 1) {
        a_step = next_a;
        b_step = next_b;
      }
      count *= size;
    }
    outer.pop_back();
    a_strides.pop_back();
    b_strides.pop_back();
  }
  ForEachIndex<2>(outer, {a_strides, b_strides}, [&](int64_t i, const auto& offsets) {
    row(context, {i * count, offsets[0], a_step, offsets[1], b_step, count});
  });
}

Result<Tensor> AllocateBroadcast(const Tensor& a, const Tensor& b, DType result) {
  EVOQ_ASSIGN(const Shape shape, BroadcastShapes(a.shape(), b.shape()));
  return AllocateOutput(TensorType(result, shape));
}

}  // namespace evoq
