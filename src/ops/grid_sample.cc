// GridSample(x, grid): y[n, c, o] = x[n, c] at the place grid[n, o].
#include "base/math.h"
#include "kernels/resize/grid_taps.h"
#include "ops/op.h"
#include "ops/util.h"

namespace evoq {

namespace {

InferResult Infer(const InferArgs& args) {
  EVOQ_TRY(GridSamplingOf(args.node.attrs));
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
    .name = "GridSample", .min_inputs = 2, .max_inputs = 2, .spatial = true, .infer = Infer};

}  // namespace evoq
