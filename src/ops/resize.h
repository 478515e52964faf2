// What inference and evaluation of Resize share.
#pragma once

#include <vector>

#include "ops/util.h"

namespace evoq {

// What happens to one axis.
struct ResizeAxis {
  int64_t in = 0, out = 0;
  double scale = 1;    // as given, or out / in
  bool given = false;  // by the scales, which are float32: places follow in float32 for nearest
  double roi_start = 0, roi_end = 1;
};

// One plan per axis of an input of these sizes. Null or empty tensors are omitted inputs.
Result<std::vector<ResizeAxis>> ResizeAxesOf(const Node& node, const std::vector<int64_t>& in,
                                             const Tensor* roi, const Tensor* scales,
                                             const Tensor* sizes);

enum class ResizeCoordinates {
  kHalfPixel,
  kHalfPixelSymmetric,
  kPytorchHalfPixel,
  kAlignCorners,
  kAsymmetric,
  kTfCropAndResize
};

using ResizeNearest = double (*)(double);

struct ResizeInterpolation {
  bool nearest = false, cubic = false, antialias = false, exclude_outside = false;
  double cubic_a = -0.75;
  ResizeCoordinates coordinates = ResizeCoordinates::kHalfPixel;
  ResizeNearest round = nullptr;
};

Result<ResizeInterpolation> ResizeInterpolationOf(const Node& node);

}  // namespace evoq
