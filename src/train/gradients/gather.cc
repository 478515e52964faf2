// Gather: y[o, i, :] = x[o, index[i], :], so dx[o, index[i], :] is the sum of dy[o, i, :]: the rows
// of an embedding's table. And Cast, by which indices become numbers.
#include <cmath>
#include <limits>

#include "ops/util.h"
#include "train/gradients/moves.h"

namespace evoq {
namespace {

struct GatherSizes {
  int64_t outer, size, inner, count;  // `count` indices into an axis of `size`
  // Where the row begins that a number means, from the axis' beginning; -1 for none.
  int64_t Row(float number) const {
    const auto row = static_cast<double>(number) + (number < 0 ? static_cast<double>(size) : 0);
    return row >= 0 && row < static_cast<double>(size) ? static_cast<int64_t>(row) * inner : -1;
  }
};

// What no row holds is no number, so that the loss says it. Samples are checked before.
void Forward(const GatherSizes& s, const GradientRun& run) {
  float* y = run.y[0];
  for (int64_t o = 0; o < s.outer; ++o) {
    const float* const x = run.x[0] + o * s.size * s.inner;
    for (int64_t i = 0; i < s.count; ++i, y += s.inner) {
      const int64_t row = s.Row(run.x[1][i]);
      if (row < 0) {
        std::fill_n(y, s.inner, std::numeric_limits<float>::quiet_NaN());
      } else {
        std::copy_n(x + row, s.inner, y);
      }
    }
  }
}

void Backward(const GatherSizes& s, const GradientRun& run) {
  const float* dy = run.dy[0];
  for (int64_t o = 0; o < s.outer; ++o) {
    float* const dx = run.dx[0] + o * s.size * s.inner;
    for (int64_t i = 0; i < s.count; ++i, dy += s.inner) {
      const int64_t row = s.Row(run.x[1][i]);
      for (int64_t j = 0; j < s.inner && row >= 0; ++j) dx[row + j] += dy[j];
    }
  }
}

Result<BoundGradient> BindGather(const GradientArgs& args) {
  if (args.constants[1] != nullptr) {
    EVOQ_ASSIGN(const std::vector<Moves> outputs, MovesOf(args));
    return MovedBy(outputs, 0);
  }
  EVOQ_ASSIGN(const int axis, NormalizeAxis(args.node.attrs.Int("axis"), args.x[0].shape.rank()));
  const AxisSplit split = SplitAt(args.x[0].shape.sizes(), axis);
  const GatherSizes s{split.outer, split.size, split.inner, *args.x[1].shape.elements()};
  return BoundGradient{.forward = [s](const GradientRun& run) { Forward(s, run); },
                       .backward = [s](const GradientRun& run) { Backward(s, run); }};
}

// Every number of training is a float32; a fraction that becomes an integer has no gradient.
Result<BoundGradient> BindCast(const GradientArgs& args) {
  const bool same = args.x[0].dtype == args.y[0].dtype;
  const bool integer = args.y[0].dtype == DType::kInt64 || args.y[0].dtype == DType::kInt32;
  if (!same && !integer && args.y[0].dtype != DType::kFloat32)
    return Unsupported("a cast to {}", DTypeName(args.y[0].dtype));
  if (!same && args.x[0].dtype == DType::kFloat32)
    return Unsupported("a cast of float32 to {}", DTypeName(args.y[0].dtype));
  const int64_t n = *args.y[0].shape.elements();
  return BoundGradient{
      .forward = [n](const GradientRun& run) { std::copy_n(run.x[0], n, run.y[0]); },
      .backward =
          [n](const GradientRun& run) {
            for (int64_t i = 0; i < n; ++i) run.dx[0][i] += run.dy[0][i];
          }};
}

}  // namespace

extern const GradientDef kGradientCast, kGradientGather;
const GradientDef kGradientCast = {.op = "Cast", .integers = 1, .bind = BindCast};
const GradientDef kGradientGather = {.op = "Gather", .integers = 0b10, .bind = BindGather};

}  // namespace evoq
