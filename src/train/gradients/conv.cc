// Convolution as products of matrices: with col[k, p] what tap k = (channel, kernel position) of
// output position p reads, per sample and group
//   y[m, p] = sum over k of w[m, k] col[k, p] + b[m]
//   dw[m, k] = sum over samples and p of dy[m, p] col[k, p]
//   dcol[k, p] = sum over m of w[m, k] dy[m, p], and dx[i] = the sum of dcol where it read x[i]
//   db[m] = sum over samples and p of dy[m, p]
// (Chellapilla, Puri, Simard, "High Performance Convolutional Neural Networks for Document
// Processing", 2006).
#include "ops/conv.h"

#include <algorithm>
#include <cstring>

#include "products/float_product.h"
#include "train/gradient.h"
#include "train/lanes.h"

namespace evoq {
namespace {

// The outputs [begin, end) along the last axis whose tap k lies inside the input.
struct Inside {
  int64_t begin, end, first;  // `first`: what output `begin` reads
};
Inside InsideOf(const ConvExtents& s, int d, int64_t tap) {
  const int64_t offset = tap * s.dilation[d] - s.pad[d];
  const int64_t begin = offset >= 0 ? 0 : (-offset + s.stride[d] - 1) / s.stride[d];
  const int64_t last = s.in[d] - 1 - offset;  // of o * stride
  const int64_t end = last < 0 ? 0 : std::min(s.out[d], last / s.stride[d] + 1);
  return {std::min(begin, end), end, begin * s.stride[d] + offset};
}

// Calls row(tap row, output offset, input offset, inside) for every tap and every line of outputs
// along the last axis; outside(...) for lines whose input lies in the padding.
template <typename Line, typename Outside>
void ForLines(const ConvExtents& s, const Line& line, const Outside& outside) {
  int64_t row = 0;
  for (int64_t c = 0; c < s.in_channels; ++c) {
    for (int64_t k0 = 0; k0 < s.kernel[0]; ++k0) {
      for (int64_t k1 = 0; k1 < s.kernel[1]; ++k1) {
        for (int64_t k2 = 0; k2 < s.kernel[2]; ++k2, ++row) {
          const Inside inside = InsideOf(s, 2, k2);
          for (int64_t o0 = 0; o0 < s.out[0]; ++o0) {
            const int64_t i0 = o0 * s.stride[0] + k0 * s.dilation[0] - s.pad[0];
            for (int64_t o1 = 0; o1 < s.out[1]; ++o1) {
              const int64_t i1 = o1 * s.stride[1] + k1 * s.dilation[1] - s.pad[1];
              const int64_t at = row * s.out_size() + (o0 * s.out[1] + o1) * s.out[2];
              if (i0 < 0 || i0 >= s.in[0] || i1 < 0 || i1 >= s.in[1]) {
                outside(at);
              } else {
                line(at, ((c * s.in[0] + i0) * s.in[1] + i1) * s.in[2] + inside.first, inside);
              }
            }
          }
        }
      }
    }
  }
}

// Lines are too short for calls of memcpy.
void CopyLine(const float* from, int64_t n, float* to) {
  constexpr int64_t kFloats = 4;
  int64_t i = 0;
  for (; i + kFloats <= n; i += kFloats) std::memcpy(to + i, from + i, kFloats * sizeof(float));
  for (; i < n; ++i) to[i] = from[i];
}

// col [channels * taps, outputs] of x [channels, in...].
void ToColumns(const ConvExtents& s, const float* x, float* col) {
  const int64_t width = s.out[2], stride = s.stride[2];
  ForLines(
      s,
      [&](int64_t at, int64_t from, const Inside& inside) {
        float* const y = col + at;
        if (inside.begin > 0) std::fill(y, y + inside.begin, 0.0f);
        if (stride == 1) {
          CopyLine(x + from, inside.end - inside.begin, y + inside.begin);
        } else {
          for (int64_t o = inside.begin; o < inside.end; ++o)
            y[o] = x[from + (o - inside.begin) * stride];
        }
        if (inside.end < width) std::fill(y + inside.end, y + width, 0.0f);
      },
      [&](int64_t at) { std::fill_n(col + at, width, 0.0f); });
}

// Adds each element of dcol to the dx that it stands for.
void AddColumns(const ConvExtents& s, const float* dcol, float* dx) {
  const int64_t stride = s.stride[2];
  ForLines(
      s,
      [&](int64_t at, int64_t to, const Inside& inside) {
        for (int64_t o = inside.begin; o < inside.end; ++o)
          dx[to + (o - inside.begin) * stride] += dcol[at + o];
      },
      [](int64_t) {});
}

// Whether col is x itself: a kernel of one tap that reads every position.
bool ReadsInPlace(const ConvExtents& s) {
  return s.taps() == 1 && s.in == s.out && s.pad == std::array<int64_t, 3>{0, 0, 0};
}

struct ConvSizes {
  ConvExtents extents;
  int64_t m, k, p;
  bool in_place;
  int64_t x_size() const { return extents.in_channels * extents.in_size(); }
};

void Forward(const ConvSizes& s, const GradientRun& run) {
  const bool bias = run.x.size() > 2 && run.x[2] != nullptr;
  float* const col = s.in_place ? nullptr : run.Scratch(s.k * s.p);
  for (int64_t n = 0; n < s.extents.batch; ++n) {
    for (int64_t g = 0; g < s.extents.groups; ++g) {
      const int64_t at = n * s.extents.groups + g;
      const float* const x = run.x[0] + at * s.x_size();
      float* const y = run.y[0] + at * s.m * s.p;
      if (bias) {
        for (int64_t m = 0; m < s.m; ++m) std::fill_n(y + m * s.p, s.p, run.x[2][g * s.m + m]);
      }
      if (!s.in_place) ToColumns(s.extents, x, col);
      Multiply(ProductF32{.m = s.m,
                          .n = s.p,
                          .k = s.k,
                          .alpha = 1,
                          .a = {run.x[1] + g * s.m * s.k, s.k, 1},
                          .b = {s.in_place ? x : col, s.p, 1},
                          .beta = bias ? 1.0f : 0.0f,
                          .c = y,
                          .c_stride = s.p},
               run.isa, *run.workspace);
    }
  }
}

// Adds the sums over one group's samples, [k, m], to dw [m, k].
void AddTransposed(const float* sums, int64_t k, int64_t m, float* dw) {
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < k; ++j) dw[i * k + j] += sums[j * m + i];
  }
}

void Backward(const ConvSizes& s, const GradientRun& run) {
  const bool weights = run.dx[1] != nullptr, data = run.dx[0] != nullptr;
  const bool bias = run.dx.size() > 2 && run.dx[2] != nullptr;
  float* const col = run.Scratch(2 * s.k * s.p + 2 * s.k * s.m);
  float* const dcol = col + s.k * s.p;
  float* const sums = dcol + s.k * s.p;
  float* const turned = sums + s.k * s.m;
  for (int64_t g = 0; g < s.extents.groups; ++g) {
    const float* const w = run.x[1] + g * s.m * s.k;
    for (int64_t i = 0; i < s.m && data; ++i) {
      for (int64_t j = 0; j < s.k; ++j) turned[j * s.m + i] = w[i * s.k + j];
    }
    for (int64_t n = 0; n < s.extents.batch; ++n) {
      const int64_t at = n * s.extents.groups + g;
      const float* const x = run.x[0] + at * s.x_size();
      const float* const dy = run.dy[0] + at * s.m * s.p;
      for (int64_t m = 0; m < s.m && bias; ++m)
        run.dx[2][g * s.m + m] +=
            static_cast<float>(SumInLanes(s.p, [&](int64_t i) { return dy[m * s.p + i]; }));
      if (weights) {
        if (!s.in_place) ToColumns(s.extents, x, col);
        Multiply(ProductF32{.m = s.k,
                            .n = s.m,
                            .k = s.p,
                            .alpha = 1,
                            .a = {s.in_place ? x : col, s.p, 1},
                            .b = {dy, 1, s.p},
                            .beta = n == 0 ? 0.0f : 1.0f,
                            .c = sums,
                            .c_stride = s.m},
                 run.isa, *run.workspace);
      }
      if (!data) continue;
      float* const dx = run.dx[0] + at * s.x_size();
      Multiply(ProductF32{.m = s.k,
                          .n = s.p,
                          .k = s.m,
                          .alpha = 1,
                          .a = {turned, s.m, 1},
                          .b = {dy, s.p, 1},
                          .beta = s.in_place ? 1.0f : 0.0f,
                          .c = s.in_place ? dx : dcol,
                          .c_stride = s.p},
               run.isa, *run.workspace);
      if (!s.in_place) AddColumns(s.extents, dcol, dx);
    }
    if (weights && s.extents.batch > 0) AddTransposed(sums, s.k, s.m, run.dx[1] + g * s.m * s.k);
  }
}

Result<BoundGradient> Bind(const GradientArgs& args) {
  if (args.x.size() > 3 && args.x[3].dtype != DType::kUndefined)
    return Unsupported("a fused residual");
  EVOQ_ASSIGN(const ConvExtents e, GeometryOf(args.node, args.x[0].shape, args.x[1].shape, false));
  const ConvSizes s = {e, e.out_channels, e.in_channels * e.taps(), e.out_size(), ReadsInPlace(e)};
  return BoundGradient{.forward = [s](const GradientRun& run) { Forward(s, run); },
                       .backward = [s](const GradientRun& run) { Backward(s, run); }};
}

}  // namespace

extern const GradientDef kGradientConv = {.op = "Conv", .differentiable = 0b111, .bind = Bind};

}  // namespace evoq
