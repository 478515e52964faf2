// Resize of float32 by any number of taps an axis: cubic, antialias, exclude_outside. Axes and taps
// in ascending order, one rounding per written operation (kernels/resize/resize.h).
#include <cstring>

#include "kernels/parallel.h"
#include "kernels/resize/resize.h"
#include "kernels/resize/taps.h"

namespace evoq {
namespace {

std::optional<Reason> RejectTaps(const KernelCall& call) {
  if (auto unknown = RejectUnknownShapes(call)) return unknown;
  if (auto why = RejectUnlessFloat(call)) return why;
  if (auto fits = CheckResize(call, ResizeTaps::kAny); !fits)
    return Reject("attribute", "{}", fits.error().message());
  return std::nullopt;
}

struct TapsState {
  ResizePlan plan;
  Isa isa = Isa::kScalar;
  int64_t pieces = 1;

  int64_t row_floats() const { return plan.w.in * plan.channels; }

  // to = the sum of weight[k] * from(k) over n floats.
  template <typename From>
  void Sum(const float* weight, int64_t taps, float* to, int64_t n, const From& from) const {
    const auto blend = ResizeTableFor(isa).blend;
    blend(from(0), from(1), weight[0], weight[1], to, n);
    for (int64_t k = 2; k < taps; ++k) blend(to, from(k), 1, weight[k], to, n);
  }

  // Pixels of kChannels floats.
  template <int kChannels>
  void Pixels(const float* x, float* y) const {
    const int64_t* index = plan.w.index.data();
    const float* weight = plan.w.weight.data();
    for (int64_t o = 0; o < plan.w.out; ++o, y += kChannels) {
      float sum[kChannels];
      for (int i = 0; i < kChannels; ++i) sum[i] = weight[0] * x[index[0] * kChannels + i];
      for (int64_t k = 1; k < plan.w.taps; ++k) {
        for (int i = 0; i < kChannels; ++i) sum[i] += weight[k] * x[index[k] * kChannels + i];
      }
      for (int i = 0; i < kChannels; ++i) y[i] = sum[i];
      index += plan.w.taps, weight += plan.w.taps;
    }
  }

  void Row(const float* x, float* y, int64_t row, float* slot) const {
    const int64_t n = row_floats(), c = plan.channels, oh = row % plan.h.out;
    const float* const image = x + row / plan.h.out * plan.h.in * n;
    const float* blended = image + oh * n;
    if (!plan.h.keep) {
      const int64_t* index = plan.h.index.data() + oh * plan.h.taps;
      Sum(plan.h.weight.data() + oh * plan.h.taps, plan.h.taps, slot, n,
          [&](int64_t k) { return image + index[k] * n; });
      blended = slot;
    }
    float* const to = y + row * plan.w.out * c;
    if (plan.w.keep) {
      std::memcpy(to, blended, static_cast<size_t>(n) * sizeof(float));
    } else if (c == 1) {
      Pixels<1>(blended, to);
    } else if (c == 3) {
      Pixels<3>(blended, to);
    } else {
      for (int64_t o = 0; o < plan.w.out; ++o) {
        const int64_t* index = plan.w.index.data() + o * plan.w.taps;
        Sum(plan.w.weight.data() + o * plan.w.taps, plan.w.taps, to + o * c, c,
            [&](int64_t k) { return blended + index[k] * c; });
      }
    }
  }

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    const int64_t rows = plan.images * plan.h.out;
    auto* slots = reinterpret_cast<float*>(context.scratch);
    context.pool.ParallelFor(pieces, 1, [&](int64_t begin, int64_t end) {
      for (int64_t piece = begin; piece < end; ++piece) {
        for (int64_t row = rows * piece / pieces; row < rows * (piece + 1) / pieces; ++row)
          Row(static_cast<const float*>(in[0]), static_cast<float*>(out[0]), row,
              slots + piece * row_floats());
      }
    });
  }
};

Result<BoundKernel> BindTaps(const KernelCall& call, const BindOptions& options) {
  TapsState state;
  EVOQ_ASSIGN(state.plan, PlanResize(call, ResizeTaps::kAny));
  state.isa = options.isa;
  const ResizePlan& plan = state.plan;
  const int64_t rows = plan.images * plan.h.out;
  const double row_ns =
      0.2 *
      static_cast<double>((plan.h.taps * plan.w.in + plan.w.taps * plan.w.out) * plan.channels);
  state.pieces = std::clamp<int64_t>(CeilDiv(rows, Grain(rows, row_ns, options.threads)), 1,
                                     4 * options.threads);
  const size_t scratch = static_cast<size_t>(state.pieces * state.row_floats()) * sizeof(float);
  return BoundKernel::Of(std::move(state), scratch);
}

}  // namespace

extern const KernelDef kResizeTaps = {
    .name = "resize_taps",
    .op = "Resize",
    .precision = Precision::kFloat32,
    .peak = Peak::kMemory,
    .reject = RejectTaps,
    .bind = BindTaps,
};

}  // namespace evoq
