// Draws digits: the data of the self-contained demo and of examples/digits.
#pragma once

#include <cstdint>

#include "tensor/tensor.h"

namespace evoq {

inline constexpr int kDigitSize = 28;

// Labels 0 to 9, each sample a digit of strokes under a random affine map, with jitter, clutter and
// noise.
struct Digits {
  Tensor images;  // float32 [n, 1, 28, 28], 0 (paper) to 1 (ink)
  Tensor labels;  // int64 [n]
};

// The same for the same seed on every machine: arithmetic only, no function of the C library but
// sqrt.
Digits DrawDigits(int64_t count, uint64_t seed);

// One image of a batch, as a batch of one.
Tensor DigitAt(const Digits& digits, int64_t index);

}  // namespace evoq
