// The ways to compute a convolution in float32 and bfloat16: over all taps, by Winograd's method
// (winograd_f32.h), with the taps beside one another (tap_sums.h).
#pragma once

#include <string>
#include <vector>

#include "kernels/conv/conv_shape_f32.h"

namespace evoq {

// bfloat16's, of first layers: the product is one of float32.
inline constexpr char kInFloat32[] = "in float32";

struct ConvWay {
  bool taps_beside = false;
  int winograd = 0;  // the m of F(m x m, 3 x 3); 0: not by it
};

// What a variant asks for, or where it is empty the fastest. Products over all taps are `speed`
// times as fast as float32's.
ConvWay ConvWayOf(const ConvShapeF32& shape, std::string_view variant, double speed);
// KernelDef::variants of a constant weight.
std::vector<std::string> ConvVariantsOf(const ConvShapeF32& shape, double speed);

}  // namespace evoq
