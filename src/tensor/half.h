// Roundings of float16 beside those of tensor/dtype.h.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tensor/dtype.h"

namespace evoq {

// The smallest float16 that is at least `value`, which is neither negative nor NaN; 65504 at most.
inline uint16_t HalfAtLeast(float value) {
  constexpr uint16_t kLargest = 0x7bff;
  const uint16_t half = FloatToHalf(value);
  return std::min(static_cast<uint16_t>(HalfToFloat(half) < value ? half + 1 : half), kLargest);
}

}  // namespace evoq
