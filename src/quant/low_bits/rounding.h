// How scales and weights are rounded, without branches and calls, so that loops over it are
// vectorized; for per-instruction-set files too (kernels/isa_table.h).
#pragma once

#include <cstdint>

namespace evoq {
namespace {

[[maybe_unused]] inline float Less(float a, float b) { return b < a ? b : a; }
[[maybe_unused]] inline float More(float a, float b) { return a < b ? b : a; }
[[maybe_unused]] inline float Clamped(float v, float low, float high) {
  const float most = high < v ? high : v;  // each a minimum and a maximum of processors
  return most < low ? low : most;
}

// The nearest float16 number, of two the even one, where one is of its size; no smaller than the
// least.
[[maybe_unused]] inline float HalfScale(float scale) {
  constexpr float kLeast = 0x1p-24f, kLeastNormal = 0x1p-14f, kMost = 65504.0f;
  constexpr uint32_t kDropped = 13;  // bits that float32's mantissa has more
  const auto bits = __builtin_bit_cast(uint32_t, scale);
  const uint32_t half = (1u << (kDropped - 1)) - 1 + (bits >> kDropped & 1);
  const auto normal = __builtin_bit_cast(float, (bits + half) >> kDropped << kDropped);
  const float subnormal = scale + 0x1.8p-1f - 0x1.8p-1f;  // a multiple of 2^-24
  const float rounded = scale < kLeastNormal ? More(subnormal, kLeast) : normal;
  return scale > kMost ? scale : rounded;
}

// Scales that are powers of two: 2^-down of that of the largest magnitude's binade, and the nearest
// to a scale.
[[maybe_unused]] inline float PowerScale(float low, float high, int down) {
  const int exponent =
      static_cast<int>(__builtin_bit_cast(uint32_t, More(high, -low)) >> 23) - down;
  return __builtin_bit_cast(float, static_cast<uint32_t>(exponent < 1 ? 1 : exponent) << 23);
}
[[maybe_unused]] inline float NearestPower(float scale) {
  return __builtin_exp2f(Clamped(__builtin_roundf(__builtin_log2f(scale)), -126.0f, 127.0f));
}

// v in [-2^22, 2^22] to the nearest whole number, of two the even one: what is added has no bits
// below 1.
[[maybe_unused]] inline float RoundEven(float v) { return v + 0x1.8p23f - 0x1.8p23f; }

}  // namespace
}  // namespace evoq
