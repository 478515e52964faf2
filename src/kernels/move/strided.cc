#include "kernels/move/strided.h"

#include "kernels/move/move_call.h"

namespace evoq {
namespace {

// Axes that go on where the next one ends merge; axes of size 1 vanish.
StridedView Merge(const StridedView& view) {
  StridedView merged{{}, {}, view.offset};
  for (size_t i = 0; i < view.sizes.size(); ++i) {
    if (view.sizes[i] == 1) continue;
    if (!merged.sizes.empty() && merged.strides.back() == view.sizes[i] * view.strides[i]) {
      merged.sizes.back() *= view.sizes[i];
      merged.strides.back() = view.strides[i];
    } else {
      merged.sizes.push_back(view.sizes[i]);
      merged.strides.push_back(view.strides[i]);
    }
  }
  if (merged.sizes.empty()) merged.sizes = {1}, merged.strides = {1};
  return merged;
}

template <typename T>
void CopyRow(const std::byte* x, std::byte* y, int64_t n, int64_t stride) {
  const T* from = reinterpret_cast<const T*>(x);
  T* to = reinterpret_cast<T*>(y);
  if (stride == 0) {
    const T one = *from;
    for (int64_t i = 0; i < n; ++i) to[i] = one;
  } else if (stride == 2) {
    for (int64_t i = 0; i < n; ++i) to[i] = from[2 * i];
  } else {
    for (int64_t i = 0; i < n; ++i) to[i] = from[i * stride];
  }
}

struct StridedState {
  StridedView view;
  int64_t element, rows, grain;

  void Row(const std::byte* x, std::byte* y) const {
    const int64_t n = view.sizes.back(), stride = view.strides.back();
    if (stride == 1) {
      CopyRun(y, x, n * element);
      return;
    }
    switch (element) {
      case 1: return CopyRow<uint8_t>(x, y, n, stride);
      case 2: return CopyRow<uint16_t>(x, y, n, stride);
      case 4: return CopyRow<uint32_t>(x, y, n, stride);
      default: return CopyRow<uint64_t>(x, y, n, stride);
    }
  }

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    const auto* x = static_cast<const std::byte*>(in[0]) + view.offset * element;
    auto* y = static_cast<std::byte*>(out[0]);
    context.pool.ParallelFor(rows, grain, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        int64_t rest = row, at = 0;
        for (size_t i = view.sizes.size() - 1; i-- > 0;) {
          at += rest % view.sizes[i] * view.strides[i];
          rest /= view.sizes[i];
        }
        Row(x + at * element, y + row * view.sizes.back() * element);
      }
    });
  }
};

}  // namespace

BoundKernel BindStrided(StridedView view, int64_t element, const BindOptions& options) {
  int64_t elements = 1;
  for (int64_t size : view.sizes) elements *= size;
  if (elements == 0) return BoundKernel::Of(StridedState{{{1}, {1}, 0}, element, 0, 1});
  StridedState state{Merge(view), element, 0, 1};
  state.rows = elements / state.view.sizes.back();
  state.grain = Grain(state.rows, 5 + CopyNs(state.view.sizes.back() * element), options.threads);
  return BoundKernel::Of(std::move(state));
}

}  // namespace evoq
