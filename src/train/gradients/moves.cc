// Operators that move elements: their gradient moves them back.
#include "train/gradients/moves.h"

#include <algorithm>

#include "ops/util.h"

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

Result<BoundGradient> BindMoves(const GradientArgs& args) {
  EVOQ_ASSIGN(const std::vector<Moves> outputs, MovesOf(args));
  return MovedBy(outputs, 0);
}

// Pad's input 2 is what stands where there is no data.
Result<BoundGradient> BindPad(const GradientArgs& args) {
  EVOQ_ASSIGN(const std::vector<Moves> outputs, MovesOf(args));
  const bool given =
      args.x.size() > 2 && args.constants[2] != nullptr && args.constants[2]->elements() > 0;
  return MovedBy(outputs, given ? *args.constants[2]->data<float>() : 0);
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

extern const GradientDef kGradientConcat, kGradientDepthToSpace, kGradientDropout, kGradientExpand,
    kGradientFlatten, kGradientGatherND, kGradientIdentity, kGradientPad, kGradientReshape,
    kGradientSlice, kGradientSpaceToDepth, kGradientSplit, kGradientSqueeze, kGradientTile,
    kGradientTranspose, kGradientTrilu, kGradientUnsqueeze;
const GradientDef kGradientConcat = {
    .op = "Concat", .differentiable = ~uint32_t{0}, .bind = BindConcat};
const GradientDef kGradientDepthToSpace = {.op = "DepthToSpace", .bind = BindMoves};
// Models hold it as what it is when they run: it passes x on.
const GradientDef kGradientDropout = {.op = "Dropout", .bind = BindView};
const GradientDef kGradientExpand = {.op = "Expand", .bind = BindMoves};
const GradientDef kGradientFlatten = {.op = "Flatten", .integers = 1, .bind = BindView};
const GradientDef kGradientGatherND = {.op = "GatherND", .bind = BindMoves};
const GradientDef kGradientIdentity = {.op = "Identity", .integers = 1, .bind = BindView};
const GradientDef kGradientPad = {.op = "Pad", .bind = BindPad};
const GradientDef kGradientReshape = {.op = "Reshape", .integers = 1, .bind = BindView};
const GradientDef kGradientSlice = {.op = "Slice", .bind = BindMoves};
const GradientDef kGradientSpaceToDepth = {.op = "SpaceToDepth", .bind = BindMoves};
const GradientDef kGradientSplit = {.op = "Split", .bind = BindMoves};
const GradientDef kGradientSqueeze = {.op = "Squeeze", .integers = 1, .bind = BindView};
const GradientDef kGradientTile = {.op = "Tile", .bind = BindMoves};
const GradientDef kGradientTranspose = {.op = "Transpose", .bind = BindMoves};
const GradientDef kGradientTrilu = {.op = "Trilu", .bind = BindMoves};
const GradientDef kGradientUnsqueeze = {.op = "Unsqueeze", .integers = 1, .bind = BindView};

}  // namespace evoq
