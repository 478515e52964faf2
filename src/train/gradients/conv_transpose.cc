// ConvTranspose is what Conv's gradient by its data is: with the columns of the convolution that
// reads y at the positions of x, and w [c, k] of a group's input channel c and tap k = (output
// channel, kernel position), per sample and group
//   col[k, p] = sum over c of w[c, k] x[c, p];  y[i] = the sum of col where it reads y[i], + bias
//   dx[c, p] = sum over k of w[c, k] dcol[k, p], with dcol what the taps read of dy
//   dw[c, k] = sum over samples and p of x[c, p] dcol[k, p]
//   dbias[m] = sum over samples and positions of dy[m]
#include "train/gradients/columns.h"
#include "train/gradients/product.h"
#include "train/lanes.h"

namespace evoq {
namespace {

struct TransposedSizes {
  ConvExtents columns;  // of the convolution from y to x
  int64_t c, k, p;      // input channels of a group, taps, positions of x
  int64_t x_size() const { return c * p; }
  int64_t y_size() const { return columns.in_channels * columns.in_size(); }
};

void Forward(const TransposedSizes& s, const GradientRun& run) {
  const bool bias = run.x.size() > 2 && run.x[2] != nullptr;
  const int64_t groups = s.columns.groups, channels = s.columns.in_channels;
  const int64_t positions = s.columns.in_size();
  float* const col = run.Scratch(s.k * s.p);
  for (int64_t at = 0; at < s.columns.batch * groups; ++at) {
    const int64_t g = at % groups;
    float* const y = run.y[0] + at * s.y_size();
    for (int64_t m = 0; m < channels; ++m)
      std::fill_n(y + m * positions, positions, bias ? run.x[2][g * channels + m] : 0.0f);
    const float* const w = run.x[1] + g * s.c * s.k;
    Product(run, s.k, s.p, s.c, Turned(w, s.k), Rows(run.x[0] + at * s.x_size(), s.p), col);
    AddColumns(s.columns, col, y);
  }
}

void Backward(const TransposedSizes& s, const GradientRun& run) {
  const bool bias = run.dx.size() > 2 && run.dx[2] != nullptr;
  const int64_t groups = s.columns.groups, channels = s.columns.in_channels;
  const int64_t positions = s.columns.in_size();
  float* const col = run.Scratch(s.k * s.p);
  for (int64_t at = 0; at < s.columns.batch * groups; ++at) {
    const int64_t g = at % groups;
    const float* const dy = run.dy[0] + at * s.y_size();
    for (int64_t m = 0; m < channels && bias; ++m) {
      const float* const line = dy + m * positions;
      run.dx[2][g * channels + m] +=
          static_cast<float>(SumInLanes(positions, [&](int64_t i) { return line[i]; }));
    }
    ToColumns(s.columns, dy, col);
    if (run.dx[0] != nullptr)
      Product(run, s.c, s.p, s.k, Rows(run.x[1] + g * s.c * s.k, s.k), Rows(col, s.p),
              run.dx[0] + at * s.x_size(), {.beta = 1});
    if (run.dx[1] != nullptr)
      Product(run, s.c, s.k, s.p, Rows(run.x[0] + at * s.x_size(), s.p), Turned(col, s.p),
              run.dx[1] + g * s.c * s.k, {.beta = 1});
  }
}

Result<BoundGradient> Bind(const GradientArgs& args) {
  if (args.x.size() > 3 && args.x[3].dtype != DType::kUndefined)
    return Unsupported("a fused residual");
  EVOQ_ASSIGN(ConvExtents e, GeometryOf(args.node, args.x[0].shape, args.x[1].shape, true));
  const TransposedSizes s = [&] {
    std::swap(e.in_channels, e.out_channels);
    std::swap(e.in, e.out);
    return TransposedSizes{e, e.out_channels, e.in_channels * e.taps(), e.out_size()};
  }();
  return BoundGradient{.forward = [s](const GradientRun& run) { Forward(s, run); },
                       .backward = [s](const GradientRun& run) { Backward(s, run); }};
}

}  // namespace

extern const GradientDef kGradientConvTranspose = {
    .op = "ConvTranspose", .differentiable = 0b111, .bind = Bind};

}  // namespace evoq
