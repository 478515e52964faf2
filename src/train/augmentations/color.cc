// Changes of brightness, contrast and saturation. Images are as preprocessing left them, so amounts
// are in units of their own: what a mean of 0 and a deviation of 1 have.
#include "train/augmentations/color.h"

#include <algorithm>

#include "train/augmentation.h"

namespace evoq {

void Brighten(const PlaneSizes& s, float amount, float* x) {
  for (int64_t i = 0; i < s.channels * s.height * s.width; ++i) x[i] += amount;
}

void Contrast(const PlaneSizes& s, float factor, float* x) {
  const int64_t n = s.channels * s.height * s.width;
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += x[i];
  const auto mean = static_cast<float>(sum / static_cast<double>(std::max<int64_t>(n, 1)));
  for (int64_t i = 0; i < n; ++i) x[i] = mean + factor * (x[i] - mean);
}

void Saturate(const PlaneSizes& s, float factor, float* x) {
  const int64_t plane = s.height * s.width;
  for (int64_t i = 0; i < plane && s.channels > 1; ++i) {
    float sum = 0;
    for (int64_t c = 0; c < s.channels; ++c) sum += x[c * plane + i];
    const float gray = sum / static_cast<float>(s.channels);
    for (int64_t c = 0; c < s.channels; ++c)
      x[c * plane + i] = gray + factor * (x[c * plane + i] - gray);
  }
}

float Uniform(XorShift& random) { return static_cast<float>(random.Next() >> 40) * 0x1p-24f; }

namespace {

void Color(const PlaneSizes& s, int amount, XorShift& random, const float* from, float* to) {
  std::copy_n(from, s.channels * s.height * s.width, to);
  const float most = 0.01f * static_cast<float>(amount);
  const auto drawn = [&] { return most * (2 * Uniform(random) - 1); };
  const float brighter = drawn(), contrast = drawn(), saturation = drawn();
  Brighten(s, brighter, to);
  Contrast(s, std::max(0.0f, 1 + contrast), to);
  Saturate(s, std::max(0.0f, 1 + saturation), to);
}

}  // namespace

extern const AugmentationDef kAugmentationColor = {
    .name = "color",
    .doc = "Changes brightness, contrast and saturation by up to N percent (default 40).",
    .amount = 40,
    .apply = Color,
};

}  // namespace evoq
