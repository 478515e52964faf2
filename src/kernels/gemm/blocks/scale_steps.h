// Scales of the weights that are small multiples of one number, their step:
//   scale[b] = step * multiple[b],  multiple in 1..15,  step = 4, 5, 6 or 7 times a power of two.
//
// What they are for: with |w| <= 8 and |q| <= 127, the sum over kStepDepth k of q w multiple is
// below 2^21, and 2^24 times a power of two bounds its product with a step: block_data.h's float
// sums t over these k are exact, so that sums of integers are the same bits.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "kernels/gemm/blocks/product.h"

namespace evoq {

inline constexpr int kMostMultiple = 15;

struct ScaleSteps {
  float step = 0;
  uint8_t multiples[kStepBlocks] = {};
};

// Of 1 to kStepBlocks scales, with the least step; nothing where they are none, or the step is no
// float16 number.
std::optional<ScaleSteps> StepsOf(std::span<const float> scales);

// Whether a number may be a step.
bool IsStep(float x);

}  // namespace evoq
