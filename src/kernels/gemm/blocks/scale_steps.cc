#include "kernels/gemm/blocks/scale_steps.h"

#include <algorithm>
#include <array>
#include <bit>

#include "tensor/dtype.h"

namespace evoq {

namespace {

constexpr uint32_t kNextStep = 1u << 21;  // from one float of three significant bits to the next

// A float16 number, if it has so few bits: a multiple of 2^-24.
bool IsHalf(float step) { return step >= 0x1p-22f && step <= 57344; }

constexpr auto kInverse = [] {
  std::array<float, kMostMultiple + 1> inverse = {};
  for (size_t m = 1; m < inverse.size(); ++m) inverse[m] = 1 / static_cast<float>(m);
  return inverse;
}();

}  // namespace

bool IsStep(float x) { return IsHalf(x) && std::bit_cast<uint32_t>(x) % kNextStep == 0; }

std::optional<ScaleSteps> StepsOf(std::span<const float> scales) {
  const float most = std::ranges::max(scales);
  if (!(most > 0)) return std::nullopt;
  for (int m = kMostMultiple; m > 0; --m) {
    // The step next to most / m, which is found without a division.
    const auto near = std::bit_cast<uint32_t>(most * kInverse[static_cast<size_t>(m)]);
    const auto step = std::bit_cast<float>((near + kNextStep / 2) / kNextStep * kNextStep);
    if (step * static_cast<float>(m) != most || !IsHalf(step)) continue;
    ScaleSteps steps = {.step = step};
    const float inverse = 1 / step;
    bool multiples = true;
    for (size_t i = 0; i < scales.size() && multiples; ++i) {
      const auto times = static_cast<int>(scales[i] * inverse + 0.5f);
      multiples = times >= 1 && static_cast<float>(times) * step == scales[i];
      steps.multiples[i] = static_cast<uint8_t>(times);
    }
    if (multiples) return steps;
  }
  return std::nullopt;
}

}  // namespace evoq
