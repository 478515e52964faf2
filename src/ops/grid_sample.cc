// GridSample(x, grid): y[n, c, o] = x[n, c] at the place grid[n, o].
#include "ops/grid_sample.h"

#include "base/math.h"
#include "ops/util.h"

namespace evoq {

Result<GridSampling> GridSamplingOf(const Node& node) {
  GridSampling s;
  const std::string mode = node.attrs.String("mode", "linear"),
                    padding = node.attrs.String("padding_mode", "zeros");
  if (mode == "nearest") {
    s.mode = GridMode::kNearest;
  } else if (mode == "cubic" || mode == "bicubic") {
    s.mode = GridMode::kCubic;
  } else if (mode != "linear" && mode != "bilinear") {
    return InvalidInput("attribute mode is '{}', expected nearest, linear or cubic", mode);
  }
  if (padding == "border") {
    s.padding = GridPadding::kBorder;
  } else if (padding == "reflection") {
    s.padding = GridPadding::kReflection;
  } else if (padding != "zeros") {
    return InvalidInput("attribute padding_mode is '{}', expected zeros, border or reflection",
                        padding);
  }
  s.align_corners = node.attrs.Int("align_corners") != 0;
  return s;
}

namespace {

InferResult Infer(const InferArgs& args) {
  EVOQ_TRY(GridSamplingOf(args.node));
  EVOQ_TRY(CheckFloat(args, 1));
  const Shape &x = args.inputs[0].shape, &grid = args.inputs[1].shape;
  if (!x.ranked() || !grid.ranked())
    return std::vector<TensorType>{TensorType(args.inputs[0].dtype, Shape::UnknownRank())};
  if (x.rank() < 3 || grid.rank() != x.rank())
    return InvalidInput("input 1 is {}, expected rank {} of input 0, at least 3", grid.ToString(),
                        x.rank());
  const Dim& last = grid[grid.rank() - 1];
  if (last.known() && last.value != x.rank() - 2)
    return InvalidInput("input 1 is {}, expected {} coordinates", grid.ToString(), x.rank() - 2);
  if (x[0].known() && grid[0].known() && x[0] != grid[0])
    return InvalidInput("input 1 is {}, expected a batch of {}", grid.ToString(), x[0].value);
  std::vector<Dim> dims = {x[0], x[1]};
  for (int d = 1; d + 1 < grid.rank(); ++d) dims.push_back(grid[d]);
  return std::vector<TensorType>{TensorType(args.inputs[0].dtype, Shape(std::move(dims)))};
}

}  // namespace

extern const OpDef kGridSample = {
    .name = "GridSample", .min_inputs = 2, .max_inputs = 2, .infer = Infer};

}  // namespace evoq
