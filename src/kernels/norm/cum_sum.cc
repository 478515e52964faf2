// CumSum(x, axis): y[i] = x[0] + ... + x[i] along an axis, added one after the other; exclusive: up
// to i - 1, reverse: from the end. Integers wrap around.
#include <algorithm>

#include "kernels/call_util.h"
#include "kernels/parallel.h"

namespace evoq {
namespace {

std::optional<int64_t> AxisOf(const KernelCall& call) {
  if (call.constant(1) == nullptr) return std::nullopt;
  const auto values = ToInt64s(*call.constant(1));
  if (!values || values->size() != 1) return std::nullopt;
  const auto axis = NormalizeAxis((*values)[0], call.inputs[0].shape.rank());
  return axis ? std::optional<int64_t>(*axis) : std::nullopt;
}

std::optional<Reason> RejectCumSum(const KernelCall& call) {
  if (auto unknown = RejectUnknownShapes(call)) return unknown;
  const TensorType& x = call.inputs[0];
  const bool sums =
      x.dtype == DType::kFloat32 || x.dtype == DType::kInt32 || x.dtype == DType::kInt64;
  if (!sums || x.quantized() || !(x == call.outputs[0]))
    return Reject("types", "{} -> {}, expected float32, int32 or int64", x.ToString(),
                  call.outputs[0].ToString());
  if (!AxisOf(call)) return Reject("not-constant", "the axis is no constant of one element");
  return std::nullopt;
}

template <typename T>
__attribute__((noinline)) void AddRow(const T* a, const T* b, T* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = a[i] + b[i];
}

struct CumSumState {
  DType dtype = DType::kFloat32;
  int64_t outer = 1, size = 1, inner = 1;
  bool exclusive = false, reverse = false;
  int64_t grain = 1;

  // n columns of the matrix [size, inner].
  template <typename T>
  void Columns(const T* x, T* y, int64_t n) const {
    const int64_t step = reverse ? -inner : inner, first = reverse ? (size - 1) * inner : 0;
    x += first;
    y += first;
    if (n == 1) {
      T sum{};
      for (int64_t k = 0; k < size; ++k, x += step, y += step) {
        const T next = sum + *x;
        *y = exclusive ? sum : next;
        sum = next;
      }
      return;
    }
    std::fill_n(y, n, T{});
    if (!exclusive) AddRow(y, x, y, n);
    const T* term = exclusive ? x : x + step;
    for (int64_t k = 1; k < size; ++k, y += step, term += step) AddRow(y, term, y + step, n);
  }

  template <typename T>
  void Part(const void* x, void* y, int64_t begin, int64_t end) const {
    while (begin < end) {
      const int64_t o = begin / inner * size * inner, from = begin % inner,
                    count = std::min(inner - from, end - begin);
      Columns(static_cast<const T*>(x) + o + from, static_cast<T*>(y) + o + from, count);
      begin += count;
    }
  }

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    context.pool.ParallelFor(outer * inner, grain, [&](int64_t begin, int64_t end) {
      if (dtype == DType::kFloat32) return Part<float>(in[0], out[0], begin, end);
      if (dtype == DType::kInt32) return Part<uint32_t>(in[0], out[0], begin, end);
      Part<uint64_t>(in[0], out[0], begin, end);
    });
  }
};

Result<BoundKernel> BindCumSum(const KernelCall& call, const BindOptions& options) {
  const Shape& shape = call.inputs[0].shape;
  const int64_t axis = AxisOf(call).value();
  CumSumState state{.dtype = call.inputs[0].dtype};
  for (int d = 0; d < shape.rank(); ++d)
    (d < axis ? state.outer : d == axis ? state.size : state.inner) *= shape[d].value;
  if (state.size == 0) state.outer = 0;
  state.exclusive = call.attrs.Int("exclusive", 0) != 0;
  state.reverse = call.attrs.Int("reverse", 0) != 0;
  state.grain =
      Grain(state.outer * state.inner,
            (state.inner == 1 ? 1.5 : 0.2) * static_cast<double>(state.size), options.threads);
  return BoundKernel::Of(state);
}

}  // namespace

extern const KernelDef kCumSumKernel = {
    .name = "cum_sum",
    .op = "CumSum",
    .precision = Precision::kAny,
    .peak = Peak::kMemory,
    .reject = RejectCumSum,
    .bind = BindCumSum,
};

}  // namespace evoq
