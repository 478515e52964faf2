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

#include "products/float_product.h"
#include "train/gradients/columns.h"
#include "train/lanes.h"

namespace evoq {
namespace {

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
