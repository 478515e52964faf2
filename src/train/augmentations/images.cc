#include <algorithm>

#include "train/augmentation.h"

namespace evoq {
namespace {

// Moves the image by -amount to +amount pixels along both axes; what comes in from outside is the
// nearest pixel.
void Shift(const PlaneSizes& s, int amount, XorShift& random, const float* from, float* to) {
  const auto span = static_cast<uint64_t>(2 * int64_t{amount} + 1);
  const int64_t down = static_cast<int64_t>((random.Next() >> 32) % span) - amount;
  const int64_t right = static_cast<int64_t>((random.Next() >> 32) % span) - amount;
  for (int64_t c = 0; c < s.channels; ++c) {
    for (int64_t i = 0; i < s.height; ++i) {
      const int64_t row = std::clamp<int64_t>(i - down, 0, s.height - 1);
      const float* const x = from + (c * s.height + row) * s.width;
      float* const y = to + (c * s.height + i) * s.width;
      for (int64_t j = 0; j < s.width; ++j)
        y[j] = x[std::clamp<int64_t>(j - right, 0, s.width - 1)];
    }
  }
}

// Turns left and right around for half of the images.
void Flip(const PlaneSizes& s, int, XorShift& random, const float* from, float* to) {
  const bool turn = random.Next() >> 63 != 0;
  for (int64_t row = 0; row < s.channels * s.height; ++row) {
    const float* const x = from + row * s.width;
    if (turn) {
      std::reverse_copy(x, x + s.width, to + row * s.width);
    } else {
      std::copy_n(x, s.width, to + row * s.width);
    }
  }
}

}  // namespace

extern const AugmentationDef kAugmentationShift, kAugmentationFlip;
const AugmentationDef kAugmentationShift = {
    .name = "shift",
    .doc = "Moves an image by up to N pixels (default 2) along both axes.",
    .amount = 2,
    .apply = Shift,
};
const AugmentationDef kAugmentationFlip = {
    .name = "flip",
    .doc = "Turns left and right around for half of the images.",
    .amount = 1,
    .apply = Flip,
};

}  // namespace evoq
