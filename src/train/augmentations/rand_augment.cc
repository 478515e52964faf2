// Cubuk et al., "RandAugment: Practical Automated Data Augmentation with a Reduced Search Space"
// (2020): two of these operations, drawn with equal chances, at a magnitude of N of 30. Those that
// need pixels of 0 to 255 (equalize, posterize, solarize, ...) are not among them. What comes in
// from outside is the nearest pixel.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "train/augmentation.h"
#include "train/augmentations/color.h"

namespace evoq {
namespace {

constexpr int kOperations = 2;
constexpr float kMost = 30;

// Pixel (y, x) of the result is that at (yy y + yx x + y0, xy y + xx x + x0), both from the middle.
struct Affine {
  float yy = 1, yx = 0, y0 = 0, xy = 0, xx = 1, x0 = 0;
};

// The image at a place between pixels, linear between its four neighbours.
float Between(const PlaneSizes& s, const float* plane, float y, float x) {
  y = std::clamp(y, 0.0f, static_cast<float>(s.height - 1));
  x = std::clamp(x, 0.0f, static_cast<float>(s.width - 1));
  const auto top = static_cast<int64_t>(y), left = static_cast<int64_t>(x);
  const int64_t bottom = std::min(top + 1, s.height - 1), right = std::min(left + 1, s.width - 1);
  const float down = y - static_cast<float>(top), along = x - static_cast<float>(left);
  const auto line = [&](int64_t row) {
    return (1 - along) * plane[row * s.width + left] + along * plane[row * s.width + right];
  };
  return (1 - down) * line(top) + down * line(bottom);
}

void Warp(const PlaneSizes& s, const Affine& a, const float* from, float* to) {
  const float middle_y = 0.5f * static_cast<float>(s.height - 1);
  const float middle_x = 0.5f * static_cast<float>(s.width - 1);
  for (int64_t c = 0; c < s.channels; ++c) {
    const float* const plane = from + c * s.height * s.width;
    for (int64_t i = 0; i < s.height; ++i) {
      for (int64_t j = 0; j < s.width; ++j) {
        const float y = static_cast<float>(i) - middle_y, x = static_cast<float>(j) - middle_x;
        to[(c * s.height + i) * s.width + j] = Between(
            s, plane, a.yy * y + a.yx * x + a.y0 + middle_y, a.xy * y + a.xx * x + a.x0 + middle_x);
      }
    }
  }
}

// The geometric operations: at most 0.3 of shear, 45% of the size, 30 degrees.
Affine Geometric(uint64_t kind, float size, const PlaneSizes& s) {
  Affine a;
  const float angle = size * std::numbers::pi_v<float> / 6;
  switch (kind) {
    case 1: a.x0 = 0.45f * size * static_cast<float>(s.width); break;
    case 2: a.y0 = 0.45f * size * static_cast<float>(s.height); break;
    case 3: a.xy = 0.3f * size; break;
    case 4: a.yx = 0.3f * size; break;
    default: a = {std::cos(angle), std::sin(angle), 0, -std::sin(angle), std::cos(angle), 0};
  }
  return a;
}

void RandAugment(const PlaneSizes& s, int amount, XorShift& random, const float* from, float* to) {
  const int64_t n = s.channels * s.height * s.width;
  std::copy_n(from, n, to);
  std::vector<float> before(static_cast<size_t>(n));
  for (int i = 0; i < kOperations; ++i) {
    const uint64_t kind = (random.Next() >> 32) % 9;
    const float sign = random.Next() >> 63 != 0 ? 1.0f : -1.0f;
    const float size = sign * std::min(1.0f, static_cast<float>(amount) / kMost);
    if (kind == 0) continue;  // as it is
    if (kind <= 5) {
      std::copy_n(to, n, before.data());
      Warp(s, Geometric(kind, size, s), before.data(), to);
    }
    if (kind == 6) Brighten(s, 0.9f * size, to);
    if (kind == 7) Contrast(s, 1 + 0.9f * size, to);
    if (kind == 8) Saturate(s, 1 + 0.9f * size, to);
  }
}

}  // namespace

extern const AugmentationDef kAugmentationRandAugment = {
    .name = "rand-augment",
    .doc = "Two of nine moves, turns and changes of color, at magnitude N of 30 (default 9).",
    .amount = 9,
    .apply = RandAugment,
};

}  // namespace evoq
