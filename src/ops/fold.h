// What inference and evaluation of Col2Im, MaxUnpool and TensorScatter share.
#pragma once

#include <vector>

#include "ops/util.h"

namespace evoq {

struct FoldPlan {
  std::vector<int64_t> image, block, dilations, strides, pads,
      counts;  // counts: blocks along each axis
  int64_t block_size = 1, places = 1, image_size = 1;
};

Result<FoldPlan> FoldPlanOf(const Node& node, std::vector<int64_t> image,
                            std::vector<int64_t> block);

Result<std::vector<Dim>> UnpoolDims(const Node& node, const Shape& x);

Result<int> ScatterAxis(const Node& node, int rank);

}  // namespace evoq
