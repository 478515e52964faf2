// Pooling: the largest element of a window passes its gradient to where it was found (the first
// one of several), a mean to all of them in equal parts.
#include "ops/pool.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "train/gradient.h"

namespace evoq {
namespace {

// Windows over up to three spatial axes; missing leading ones have size 1.
struct PoolSizes {
  int64_t planes = 1;
  std::array<int64_t, 3> in{1, 1, 1}, kernel{1, 1, 1}, out{1, 1, 1}, stride{1, 1, 1},
      dilation{1, 1, 1}, pad{0, 0, 0}, pad_end{0, 0, 0};
  int64_t in_size() const { return in[0] * in[1] * in[2]; }
  int64_t out_size() const { return out[0] * out[1] * out[2]; }
};

Result<PoolSizes> PoolSizesOf(const GradientArgs& args) {
  const Shape& x = args.x[0].shape;
  const int rank = x.rank() - 2;
  if (rank > 3) return Unsupported("input 0 is {}, expected at most 3 spatial axes", x.ToString());
  EVOQ_ASSIGN(const Window window, PoolWindowOf(args.node, x));
  PoolSizes s;
  s.planes = x[0].value * x[1].value;
  for (int i = 0; i < rank; ++i) {
    const int d = 3 - rank + i;
    s.in[d] = x[2 + i].value;
    s.kernel[d] = window.kernel[i];
    s.out[d] = window.output[i].value;
    s.stride[d] = window.strides[i];
    s.dilation[d] = window.dilations[i];
    s.pad[d] = window.pad_begin[i];
    s.pad_end[d] = window.pad_end[i];
  }
  return s;
}

// Along axis d, the taps of output o that lie inside the input.
struct Taps {
  int64_t begin, end, start;  // tap t reads start + t * dilation
};
Taps TapsOf(const PoolSizes& s, int d, int64_t o) {
  const int64_t start = o * s.stride[d] - s.pad[d];
  const int64_t begin = start >= 0 ? 0 : (-start + s.dilation[d] - 1) / s.dilation[d];
  const int64_t room = s.in[d] - 1 - start;
  const int64_t end = room < 0 ? 0 : std::min(s.kernel[d], room / s.dilation[d] + 1);
  return {std::min(begin, end), end, start};
}

// Calls body(output, taps) for each output of a plane, in order.
template <typename Body>
void ForEachWindow(const PoolSizes& s, const Body& body) {
  int64_t at = 0;
  for (int64_t o0 = 0; o0 < s.out[0]; ++o0) {
    const Taps t0 = TapsOf(s, 0, o0);
    for (int64_t o1 = 0; o1 < s.out[1]; ++o1) {
      const Taps t1 = TapsOf(s, 1, o1);
      for (int64_t o2 = 0; o2 < s.out[2]; ++o2, ++at)
        body(at, std::array<Taps, 3>{t0, t1, TapsOf(s, 2, o2)});
    }
  }
}

// Calls body(position in the input's plane) for each tap of a window.
template <typename Body>
void ForEachTap(const PoolSizes& s, const std::array<Taps, 3>& taps, const Body& body) {
  for (int64_t k0 = taps[0].begin; k0 < taps[0].end; ++k0) {
    const int64_t i0 = taps[0].start + k0 * s.dilation[0];
    for (int64_t k1 = taps[1].begin; k1 < taps[1].end; ++k1) {
      const int64_t i1 = i0 * s.in[1] + taps[1].start + k1 * s.dilation[1];
      for (int64_t k2 = taps[2].begin; k2 < taps[2].end; ++k2)
        body(i1 * s.in[2] + taps[2].start + k2 * s.dilation[2]);
    }
  }
}

// ---- MaxPool; `saved` holds the positions, as int32

constexpr int32_t kNowhere = -1;

// One window, of two by two without padding, dilation or overlap: what most networks have.
bool IsHalving(const PoolSizes& s) {
  return s.kernel == std::array<int64_t, 3>{1, 2, 2} &&
         s.stride == std::array<int64_t, 3>{1, 2, 2} &&
         s.dilation == std::array<int64_t, 3>{1, 1, 1} && s.out[1] * 2 <= s.in[1] &&
         s.out[2] * 2 <= s.in[2] && s.pad == std::array<int64_t, 3>{0, 0, 0};
}

void Halve(const PoolSizes& s, const float* x, float* y, int32_t* from) {
  for (int64_t o0 = 0; o0 < s.out[0]; ++o0) {
    for (int64_t o1 = 0; o1 < s.out[1]; ++o1) {
      const int64_t line = (o0 * s.in[1] + 2 * o1) * s.in[2];
      const int64_t at = (o0 * s.out[1] + o1) * s.out[2];
      for (int64_t o2 = 0; o2 < s.out[2]; ++o2) {
        const int64_t first = line + 2 * o2, below = first + s.in[2];
        const int64_t upper = x[first + 1] > x[first] ? first + 1 : first;
        const int64_t lower = x[below + 1] > x[below] ? below + 1 : below;
        const int64_t best = x[lower] > x[upper] ? lower : upper;
        y[at + o2] = x[best];
        from[at + o2] = static_cast<int32_t>(best);
      }
    }
  }
}

void Largest(const PoolSizes& s, const float* x, float* y, int32_t* from) {
  ForEachWindow(s, [&](int64_t o, const std::array<Taps, 3>& taps) {
    float best = -std::numeric_limits<float>::infinity();
    int64_t where = kNowhere;
    ForEachTap(s, taps, [&](int64_t i) {
      if (where != kNowhere && !(x[i] > best)) return;
      best = x[i];
      where = i;
    });
    y[o] = best;
    from[o] = static_cast<int32_t>(where);
  });
}

Result<BoundGradient> LargestOf(const PoolSizes& s) {
  if (s.in_size() > std::numeric_limits<int32_t>::max())
    return Unsupported("a plane of {} elements", s.in_size());
  const auto forward = [s, halves = IsHalving(s)](const GradientRun& run) {
    auto* const from = reinterpret_cast<int32_t*>(run.saved);
    for (int64_t p = 0; p < s.planes; ++p)
      (halves ? Halve : Largest)(s, run.x[0] + p * s.in_size(), run.y[0] + p * s.out_size(),
                                 from + p * s.out_size());
  };
  const auto backward = [s](const GradientRun& run) {
    const auto* const from = reinterpret_cast<const int32_t*>(run.saved);
    for (int64_t p = 0; p < s.planes; ++p) {
      const int64_t out = p * s.out_size();
      float* const dx = run.dx[0] + p * s.in_size();
      for (int64_t o = 0; o < s.out_size(); ++o) {
        if (from[out + o] != kNowhere) dx[from[out + o]] += run.dy[0][out + o];
      }
    }
  };
  return BoundGradient{.forward = forward, .backward = backward, .saved = s.planes * s.out_size()};
}

Result<BoundGradient> BindMaxPool(const GradientArgs& args) {
  if (args.y.size() > 1 && args.node.outputs.size() > 1 && args.node.outputs[1].valid())
    return Unsupported("the output of indices");
  EVOQ_ASSIGN(const PoolSizes s, PoolSizesOf(args));
  return LargestOf(s);
}

// One window: all of a plane.
PoolSizes Whole(const GradientArgs& args) {
  const std::vector<int64_t> sizes = args.x[0].shape.sizes();
  PoolSizes s;
  s.planes = sizes[0] * sizes[1];
  for (size_t d = 2; d < sizes.size(); ++d) s.in[2] *= sizes[d];
  s.kernel[2] = s.in[2];
  return s;
}

Result<BoundGradient> BindGlobalMaxPool(const GradientArgs& args) { return LargestOf(Whole(args)); }

// ---- AveragePool, GlobalAveragePool

// What divides each output of a plane.
std::vector<float> Counts(const PoolSizes& s, bool with_padding) {
  std::vector<float> counts;
  std::array<int64_t, 3> o{};
  for (o[0] = 0; o[0] < s.out[0]; ++o[0]) {
    for (o[1] = 0; o[1] < s.out[1]; ++o[1]) {
      for (o[2] = 0; o[2] < s.out[2]; ++o[2]) {
        int64_t count = 1;
        for (int d = 0; d < 3; ++d) {
          const Taps taps = TapsOf(s, d, o[d]);
          const int64_t room = s.in[d] + s.pad_end[d] - taps.start;  // padding counts, beyond not
          count *= with_padding ? std::min(s.kernel[d], (room - 1) / s.dilation[d] + 1)
                                : taps.end - taps.begin;
        }
        counts.push_back(static_cast<float>(std::max<int64_t>(count, 1)));
      }
    }
  }
  return counts;
}

BoundGradient Mean(const PoolSizes& s, bool with_padding) {
  const std::vector<float> counts = Counts(s, with_padding);
  const auto forward = [s, counts](const GradientRun& run) {
    for (int64_t p = 0; p < s.planes; ++p) {
      const float* const x = run.x[0] + p * s.in_size();
      float* const y = run.y[0] + p * s.out_size();
      ForEachWindow(s, [&](int64_t o, const std::array<Taps, 3>& taps) {
        double sum = 0;
        ForEachTap(s, taps, [&](int64_t i) { sum += x[i]; });
        y[o] = static_cast<float>(sum / counts[o]);
      });
    }
  };
  const auto backward = [s, counts](const GradientRun& run) {
    for (int64_t p = 0; p < s.planes; ++p) {
      float* const dx = run.dx[0] + p * s.in_size();
      const float* const dy = run.dy[0] + p * s.out_size();
      ForEachWindow(s, [&](int64_t o, const std::array<Taps, 3>& taps) {
        const float part = dy[o] / counts[o];
        ForEachTap(s, taps, [&](int64_t i) { dx[i] += part; });
      });
    }
  };
  return BoundGradient{.forward = forward, .backward = backward};
}

Result<BoundGradient> BindAveragePool(const GradientArgs& args) {
  EVOQ_ASSIGN(const PoolSizes s, PoolSizesOf(args));
  return Mean(s, args.node.attrs.Int("count_include_pad") != 0);
}

Result<BoundGradient> BindGlobalAveragePool(const GradientArgs& args) {
  return Mean(Whole(args), false);
}

}  // namespace

extern const GradientDef kGradientAveragePool, kGradientGlobalAveragePool, kGradientGlobalMaxPool,
    kGradientMaxPool;
const GradientDef kGradientAveragePool = {.op = "AveragePool", .bind = BindAveragePool};
const GradientDef kGradientGlobalAveragePool = {.op = "GlobalAveragePool",
                                                .bind = BindGlobalAveragePool};
const GradientDef kGradientGlobalMaxPool = {.op = "GlobalMaxPool", .bind = BindGlobalMaxPool};
const GradientDef kGradientMaxPool = {.op = "MaxPool", .bind = BindMaxPool};

}  // namespace evoq
