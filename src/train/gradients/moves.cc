// Operators that move elements: their gradient moves them back.
#include <algorithm>
#include <cstring>

#include "ops/transpose.h"
#include "ops/util.h"
#include "train/gradient.h"

namespace evoq {
namespace {

// y is x under another shape.
Result<BoundGradient> BindView(const GradientArgs& args) {
  const int64_t n = *args.y[0].shape.elements();
  return BoundGradient{
      .forward = [n](const GradientRun& run) { std::copy_n(run.x[0], n, run.y[0]); },
      .backward =
          [n](const GradientRun& run) {
            for (int64_t i = 0; i < n; ++i) run.dx[0][i] += run.dy[0][i];
          }};
}

Result<BoundGradient> BindTranspose(const GradientArgs& args) {
  const std::vector<int64_t> from = args.x[0].shape.sizes();
  EVOQ_ASSIGN(const std::vector<int64_t> permutation,
              TransposePermutation(args.node, static_cast<int>(from.size())));
  const std::vector<int64_t> strides = RowMajorStrides(from);
  std::vector<int64_t> sizes, steps;  // of y's axes
  for (int64_t axis : permutation) {
    sizes.push_back(from[static_cast<size_t>(axis)]);
    steps.push_back(strides[static_cast<size_t>(axis)]);
  }
  // Calls body(i, where element i of y lies in x).
  const auto each = [sizes, steps, n = *args.y[0].shape.elements()](const auto& body) {
    for (int64_t i = 0; i < n; ++i) {
      int64_t rest = i, at = 0;
      for (size_t d = sizes.size(); d-- > 0; rest /= sizes[d]) at += rest % sizes[d] * steps[d];
      body(i, at);
    }
  };
  return BoundGradient{.forward =
                           [each](const GradientRun& run) {
                             each([&](int64_t i, int64_t at) { run.y[0][i] = run.x[0][at]; });
                           },
                       .backward =
                           [each](const GradientRun& run) {
                             each([&](int64_t i, int64_t at) { run.dx[0][at] += run.dy[0][i]; });
                           }};
}

Result<BoundGradient> BindConcat(const GradientArgs& args) {
  EVOQ_ASSIGN(const int axis, NormalizeAxis(args.node.attrs.Int("axis"), args.y[0].shape.rank()));
  const AxisSplit all = SplitAt(args.y[0].shape.sizes(), axis);
  std::vector<int64_t> lengths;  // of each input's part of a line
  for (const TensorType& x : args.x) lengths.push_back(x.shape[axis].value * all.inner);
  const int64_t line = all.size * all.inner;
  // Calls body(input, offset in it, offset in y, elements).
  const auto each = [lengths, line, outer = all.outer](const auto& body) {
    int64_t begin = 0;
    for (size_t i = 0; i < lengths.size(); begin += lengths[i++]) {
      for (int64_t o = 0; o < outer; ++o) body(i, o * lengths[i], o * line + begin, lengths[i]);
    }
  };
  return BoundGradient{.forward =
                           [each](const GradientRun& run) {
                             each([&](size_t i, int64_t from, int64_t to, int64_t n) {
                               std::copy_n(run.x[i] + from, n, run.y[0] + to);
                             });
                           },
                       .backward =
                           [each](const GradientRun& run) {
                             each([&](size_t i, int64_t to, int64_t from, int64_t n) {
                               if (run.dx[i] == nullptr) return;
                               for (int64_t j = 0; j < n; ++j)
                                 run.dx[i][to + j] += run.dy[0][from + j];
                             });
                           }};
}

}  // namespace

extern const GradientDef kGradientConcat, kGradientDropout, kGradientFlatten, kGradientIdentity,
    kGradientReshape, kGradientSqueeze, kGradientTranspose, kGradientUnsqueeze;
const GradientDef kGradientConcat = {
    .op = "Concat", .differentiable = ~uint32_t{0}, .bind = BindConcat};
// Models hold it as what it is when they run: it passes x on.
const GradientDef kGradientDropout = {.op = "Dropout", .bind = BindView};
const GradientDef kGradientFlatten = {.op = "Flatten", .bind = BindView};
const GradientDef kGradientIdentity = {.op = "Identity", .bind = BindView};
const GradientDef kGradientReshape = {.op = "Reshape", .bind = BindView};
const GradientDef kGradientSqueeze = {.op = "Squeeze", .bind = BindView};
const GradientDef kGradientTranspose = {.op = "Transpose", .bind = BindTranspose};
const GradientDef kGradientUnsqueeze = {.op = "Unsqueeze", .bind = BindView};

}  // namespace evoq
