// Numbers of float4e2m1 (OCP Microscaling Formats, 1.0), for per-instruction-set files too.
#pragma once

#include <cstdint>

namespace evoq {
namespace {

// Ties go to the numbers with an even last bit: 0, 1, 2, 4.
[[maybe_unused]] inline float NearestFloat4(float v) {
  const float a = __builtin_fabsf(v);
  float n = 0;
  n = a > 0.25f ? 0.5f : n;
  n = a >= 0.75f ? 1 : n;
  n = a > 1.25f ? 1.5f : n;
  n = a >= 1.75f ? 2 : n;
  n = a > 2.5f ? 3 : n;
  n = a >= 3.5f ? 4 : n;
  n = a > 5 ? 6 : n;
  return __builtin_copysignf(n, v);
}

[[maybe_unused]] inline uint8_t Float4Bits(float number) {
  constexpr uint8_t kByHalves[] = {0, 1, 2, 3, 4, 0, 5, 0, 6, 0, 0, 0, 7};
  return kByHalves[static_cast<int>(2 * __builtin_fabsf(number))] |
         (__builtin_signbit(number) ? 8 : 0);
}

}  // namespace
}  // namespace evoq
