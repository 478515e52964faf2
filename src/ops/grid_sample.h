// What inference and evaluation of GridSample share.
#pragma once

#include "ops/util.h"

namespace evoq {

enum class GridPadding { kZeros, kBorder, kReflection };
enum class GridMode { kNearest, kLinear, kCubic };

struct GridSampling {
  GridMode mode = GridMode::kLinear;
  GridPadding padding = GridPadding::kZeros;
  bool align_corners = false;
};

Result<GridSampling> GridSamplingOf(const Node& node);

}  // namespace evoq
