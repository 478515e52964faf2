// Two-operand element-wise evaluation with numpy broadcasting.
#pragma once

#include "reference/util.h"

namespace evoq {

// Calls row(y offset, a offset, a step, b offset, b step, count) for runs of consecutive outputs;
// steps are 0 or more.
template <typename Row>
void ForEachBroadcastRow(const std::vector<int64_t>& a, const std::vector<int64_t>& b,
                         const std::vector<int64_t>& y, const Row& row) {
  if (a == y && b == y) {
    int64_t total = 1;
    for (int64_t s : y) total *= s;
    return row(0, 0, 1, 0, 1, total);
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
    row(i * count, offsets[0], a_step, offsets[1], b_step, count);
  });
}

// y = f(a, b) with T operands and R results. The shapes broadcast (as inferred).
template <typename T, typename R, typename F>
Result<Tensor> BroadcastMap(const Tensor& a, const Tensor& b, DType result, const F& f) {
  EVOQ_ASSIGN(const Shape shape, BroadcastShapes(a.shape(), b.shape()));
  EVOQ_ASSIGN(Tensor y, AllocateOutput(TensorType(result, shape)));
  const T* pa = a.data<T>();
  const T* pb = b.data<T>();
  R* py = y.mutable_data<R>();
  const auto row = [&](int64_t to, int64_t ia, int64_t a_step, int64_t ib, int64_t b_step,
                       int64_t count) {
    if (a_step == 1 && b_step == 1) {
      for (int64_t i = 0; i < count; ++i) py[to + i] = f(pa[ia + i], pb[ib + i]);
    } else {
      for (int64_t i = 0; i < count; ++i) py[to + i] = f(pa[ia + i * a_step], pb[ib + i * b_step]);
    }
  };
  ForEachBroadcastRow(a.sizes(), b.sizes(), y.sizes(), row);
  return y;
}

}  // namespace evoq
