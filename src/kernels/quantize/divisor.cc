#include "kernels/quantize/divisor.h"

#include <bit>
#include <cmath>
#include <cstdint>

namespace evoq {
namespace {

// fma(x, high, x * low) is x / scale, off by less than 2^-46 of it, and rounded. It rounds to
// another integer than the rounded x / scale only for an x / scale that close to where rounding to
// float32 reaches or leaves a tie h: to the middle between h and a float beside it, `middle` (25
// bits) times a power of 2. With both as integers, scale * middle has 48 or 49 bits, and the x
// nearest to it are its 24 leading bits and the next number: the bits behind tell how near.
bool FarFromMiddle(uint64_t scale, uint64_t middle) {
  const uint64_t product = scale * middle;
  const int behind = 40 - std::countl_zero(product);
  const uint64_t rest = product & ((uint64_t{1} << behind) - 1);
  constexpr uint64_t kNear = 16;  // 2^49 * 2^-46, and as much again
  return rest > kNear && rest < (uint64_t{1} << behind) - kNear;
}

uint64_t Significand(float x) { return (std::bit_cast<uint32_t>(x) & 0x7fffffu) | 0x800000u; }

bool RoundsAlike(float scale) {
  const uint64_t s = Significand(scale);
  bool far = true;
  for (int k = 0; k < 256; ++k) {
    const uint64_t h = Significand(static_cast<float>(k) + 0.5f);
    far &= FarFromMiddle(s, 2 * h + 1) &&
           FarFromMiddle(s, k == 0 ? 4 * h - 1 : 2 * h - 1);  // floats lie closer below 1/2
  }
  return far;
}

}  // namespace

Divisor Divisor::Of(float scale) {
  Divisor by(scale);
  if (!(scale > 1e-25f && scale < 1e25f)) return by;
  const double inverse = 1.0 / static_cast<double>(scale);
  by.high = static_cast<float>(inverse);
  if (static_cast<double>(by.high) > inverse) by.high = std::nextafter(by.high, 0.0f);
  // Above 0, so that an infinite x stays what it is; 1e-35 changes no product.
  by.low = std::fmax(static_cast<float>(inverse - static_cast<double>(by.high)), 1e-35f);
  by.exact = RoundsAlike(scale);
  return by;
}

}  // namespace evoq
