// DeVries and Taylor, "Improved Regularization of Convolutional Neural Networks with Cutout"
// (2017): a square of N x N around a random pixel, as far as it lies in the image, becomes 0.
#include <algorithm>

#include "train/augmentation.h"

namespace evoq {
namespace {

void Cutout(const PlaneSizes& s, int amount, XorShift& random, const float* from, float* to) {
  std::copy_n(from, s.channels * s.height * s.width, to);
  const auto drawn = [&](int64_t size) {
    return static_cast<int64_t>((random.Next() >> 32) % static_cast<uint64_t>(size));
  };
  const int64_t top = drawn(s.height) - amount / 2, left = drawn(s.width) - amount / 2;
  const int64_t bottom = std::min(top + amount, s.height), right = std::min(left + amount, s.width);
  for (int64_t c = 0; c < s.channels; ++c) {
    for (int64_t i = std::max<int64_t>(top, 0); i < bottom; ++i) {
      for (int64_t j = std::max<int64_t>(left, 0); j < right; ++j)
        to[(c * s.height + i) * s.width + j] = 0;
    }
  }
}

}  // namespace

extern const AugmentationDef kAugmentationCutout = {
    .name = "cutout",
    .doc = "A square of N x N pixels (default 8) becomes 0.",
    .amount = 8,
    .apply = Cutout,
};

}  // namespace evoq
