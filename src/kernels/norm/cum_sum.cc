// CumSum(x, axis): y[i] = x[0] + ... + x[i] along an axis, added one after the other; exclusive: up
// to i - 1, reverse: from the end. Integers wrap around.
#include <type_traits>

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
T Plus(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) +
                          static_cast<std::make_unsigned_t<T>>(b));
  } else {
    return a + b;
  }
}

struct CumSumState {
  DType dtype = DType::kFloat32;
  int64_t outer = 1, size = 1, inner = 1;
  bool exclusive = false, reverse = false;
  int64_t outer_grain = 1, inner_grain = 1;

  // Columns [begin, end) of the matrix [size, inner].
  template <typename T>
  void Columns(const T* x, T* y, int64_t begin, int64_t end) const {
    const int64_t step = reverse ? -inner : inner;
    const int64_t first = reverse ? (size - 1) * inner : 0;
    for (int64_t k = 0; k < size; ++k) {
      const int64_t at = first + k * step, before = at - step, from = exclusive ? before : at;
      for (int64_t i = begin; i < end; ++i) {
        const T sum = k == 0 ? T{} : y[before + i];
        y[at + i] = k == 0 && exclusive ? sum : Plus(sum, x[from + i]);
      }
    }
  }

  // One row, whose sum stays in a register.
  template <typename T>
  void Row(const T* x, T* y) const {
    T sum{};
    for (int64_t k = 0; k < size; ++k) {
      const int64_t at = reverse ? size - 1 - k : k;
      const T next = Plus(sum, x[at]);
      y[at] = exclusive ? sum : next;
      sum = next;
    }
  }

  template <typename T>
  void RunAs(const void* const* in, void* const* out, const RunContext& context) const {
    const T* const x = static_cast<const T*>(in[0]);
    T* const y = static_cast<T*>(out[0]);
    const int64_t plane = size * inner;
    if (inner == 1) {
      context.pool.ParallelFor(outer, outer_grain, [&](int64_t begin, int64_t end) {
        for (int64_t o = begin; o < end; ++o) Row(x + o * plane, y + o * plane);
      });
      return;
    }
    context.pool.ParallelFor(outer * inner, inner_grain, [&](int64_t begin, int64_t end) {
      while (begin < end) {
        const int64_t o = begin / inner, from = begin % inner,
                      count = std::min(inner - from, end - begin);
        Columns(x + o * plane, y + o * plane, from, from + count);
        begin += count;
      }
    });
  }

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    if (dtype == DType::kFloat32) return RunAs<float>(in, out, context);
    if (dtype == DType::kInt32) return RunAs<int32_t>(in, out, context);
    RunAs<int64_t>(in, out, context);
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
  const auto size = static_cast<double>(state.size);
  state.outer_grain = Grain(state.outer, size, options.threads);
  state.inner_grain = Grain(state.outer * state.inner, 0.2 * size, options.threads);
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
