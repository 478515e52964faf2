// What augmentations do to the colors of an image, in place.
#pragma once

#include "train/augmentation.h"

namespace evoq {

// x + amount.
void Brighten(const PlaneSizes& sizes, float amount, float* x);
// mean + factor (x - mean), with the mean of the image.
void Contrast(const PlaneSizes& sizes, float factor, float* x);
// gray + factor (x - gray), with the mean of a pixel's channels; nothing where there is one.
void Saturate(const PlaneSizes& sizes, float factor, float* x);

// In [0, 1).
float Uniform(XorShift& random);

}  // namespace evoq
