// Bilinear resampling equal to Pillow's Image.resize(size, Image.BILINEAR), byte for byte. (Pillow
// 13 takes the vertical pass first for some resizes that shrink the height more than the width;
// evoq always does as the releases before it.)
#pragma once

#include "base/budget.h"
#include "base/result.h"
#include "data/dataset.h"

namespace evoq {

// Two passes, horizontal then vertical, with 8-bit pixels between them. Along one axis of in -> out
// pixels, with s = in / out, f = max(s, 1), output i is sum_j w(j) p[j] / sum_j w(j) over the
// pixels j with |j + 0.5 - c| < f, where c = (i + 0.5) s and w(j) = 1 - |j + 0.5 - c| / f; the
// normalized weights are rounded to 22 fractional bits. Besides the result it takes the memory of
// as many rows between the passes as one output row needs. The first pass draws its work on the
// budget: a file may be as tall as it likes. Errors: kTooLarge over 2^28 pixels or the budget.
// `width`, `height` >= 1.
Result<Image> ResizeBilinear(const Image& image, int width, int height, Budget& budget);

// Short side to `size`, the other to int(size * long / short), as torchvision's Resize: a file may
// make that one as long as it likes, so that the result draws on its budget. Errors: kTooLarge.
Result<Image> ResizeShortSide(const Image& image, int size, Budget& budget);

// The centre height x width; offsets are floor((in - out) / 2).
// Errors: kInvalidInput when the image is smaller.
Result<Image> CentreCrop(const Image& image, int height, int width);

}  // namespace evoq
