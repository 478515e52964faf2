// Sine and cosine of float32, computed in float64: within 0.51 units in the last place up to
// kMostReduced, and as the C library has them beyond. Without branches, for loops that hold no
// larger argument. In an unnamed namespace: see kernels/isa_table.h.
#pragma once

#include <cstdint>

#include "kernels/math/math.inl.h"

namespace evoq {
namespace {

// The largest magnitude that is reduced by the two parts of pi / 2 below: its count of quarter
// turns has 20 bits and the first part 33, so that their product is exact.
constexpr float kMostReduced = 1048576.0f;  // 2^20

EVOQ_INLINE bool IsReduced(float x) { return FromBits(ToBits(x) & 0x7fffffffu) <= kMostReduced; }

// sin(x + quarters pi / 2) of |x| <= kMostReduced. Coefficients of FreeBSD's __kernel_sindf and
// __kernel_cosdf (msun), which are within 2^-37 and 2^-34 on [-pi / 4, pi / 4].
EVOQ_INLINE float SineReduced(float x, uint64_t quarters) {
  constexpr double kMagic = 6755399441055744.0;  // 1.5 * 2^52 rounds to an integer
  constexpr double kTwoOverPi = 0.6366197723675814, kHigh = 1.5707963267341256,
                   kLow = 6.077100506506192e-11;
  const double shifted = static_cast<double>(x) * kTwoOverPi + kMagic, turns = shifted - kMagic;
  const double r = (static_cast<double>(x) - turns * kHigh) - turns * kLow, z = r * r;
  const double sine = r * (1 + z * (-0.16666666641626524 +
                                    z * (0.008333329385889463 + z * (-0.00019839334836096632 +
                                                                     z * 2.718311493989822e-06))));
  const double cosine =
      1 + z * (-0.499999997251031 +
               z * (0.04166662332373906 + z * (-0.001388676377460993 + z * 2.439044879627741e-05)));
  const uint64_t quadrant = __builtin_bit_cast(uint64_t, shifted) + quarters;
  const double v = (quadrant & 1) != 0 ? cosine : sine;
  return static_cast<float>((quadrant & 2) != 0 ? -v : v);
}

EVOQ_INLINE float SinInline(float x) {
  return IsReduced(x) ? SineReduced(x, 0) : __builtin_sinf(x);
}
EVOQ_INLINE float CosInline(float x) {
  return IsReduced(x) ? SineReduced(x, 1) : __builtin_cosf(x);
}

}  // namespace
}  // namespace evoq
