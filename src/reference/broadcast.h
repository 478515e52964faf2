// Two-operand element-wise evaluation with numpy broadcasting. What does not depend on the element
// type is no template: there are many types and many operators.
#pragma once

#include "reference/util.h"

namespace evoq {

// A run of consecutive outputs: element `to + i` is of a's `a + i * a_step` and b's; steps are 0 or
// more.
struct BroadcastRow {
  int64_t to, a, a_step, b, b_step, count;
};

// Calls row(context, run) for all runs.
void ForEachBroadcastRow(const std::vector<int64_t>& a, const std::vector<int64_t>& b,
                         const std::vector<int64_t>& y,
                         void (*row)(const void* context, const BroadcastRow& run),
                         const void* context);
template <typename Row>
void ForEachBroadcastRow(const std::vector<int64_t>& a, const std::vector<int64_t>& b,
                         const std::vector<int64_t>& y, const Row& row) {
  ForEachBroadcastRow(
      a, b, y,
      [](const void* context, const BroadcastRow& run) {
        (*static_cast<const Row*>(context))(run);
      },
      &row);
}

// Zeros of the shape that both broadcast to (as inferred). Errors: those of AllocateOutput.
Result<Tensor> AllocateBroadcast(const Tensor& a, const Tensor& b, DType result);

// y = f(a, b) with T operands and R results; y as AllocateBroadcast makes it.
template <typename T, typename R, typename F>
void BroadcastInto(const Tensor& a, const Tensor& b, Tensor& y, const F& f) {
  const T* const pa = a.data<T>();
  const T* const pb = b.data<T>();
  R* const py = y.mutable_data<R>();
  ForEachBroadcastRow(a.sizes(), b.sizes(), y.sizes(), [=](const BroadcastRow& run) {
    const T *const from_a = pa + run.a, *const from_b = pb + run.b;
    R* const to = py + run.to;
    if (run.a_step == 1 && run.b_step == 1) {
      for (int64_t i = 0; i < run.count; ++i) to[i] = f(from_a[i], from_b[i]);
    } else {
      for (int64_t i = 0; i < run.count; ++i)
        to[i] = f(from_a[i * run.a_step], from_b[i * run.b_step]);
    }
  });
}

template <typename T, typename R, typename F>
Result<Tensor> BroadcastMap(const Tensor& a, const Tensor& b, DType result, const F& f) {
  EVOQ_ASSIGN(Tensor y, AllocateBroadcast(a, b, result));
  BroadcastInto<T, R>(a, b, y, f);
  return y;
}

}  // namespace evoq
