#include <cstring>

#include "kernels/quantize/half.h"

namespace evoq::EVOQ_ISA {
namespace {

inline uint32_t BitsOf(float v) {
  uint32_t bits;
  std::memcpy(&bits, &v, sizeof(bits));
  return bits;
}
inline float FromBits(uint32_t bits) {
  float v;
  std::memcpy(&v, &bits, sizeof(v));
  return v;
}

// Each class of numbers is computed for every element and then chosen: no branches, so that the
// loop becomes vectors.
void Widen(const uint16_t* x, float* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t sign = static_cast<uint32_t>(x[i] & 0x8000) << 16, magnitude = x[i] & 0x7fff,
                   mantissa = x[i] & 1023;
    const uint32_t normal = (magnitude << 13) + (112u << 23),
                   special = (magnitude << 13) | 0x7f800000u;
    const uint32_t subnormal =
        BitsOf(static_cast<float>(static_cast<int32_t>(mantissa)) * 0x1p-24f);
    y[i] = FromBits(sign | (magnitude < 0x0400   ? subnormal
                            : magnitude < 0x7c00 ? normal
                                                 : special));
  }
}

void Narrow(const float* x, uint16_t* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t bits = BitsOf(x[i]), sign = (bits >> 16) & 0x8000,
                   magnitude = bits & 0x7fffffffu;
    const uint32_t normal = (magnitude + 0xfffu + ((magnitude >> 13) & 1) - 0x38000000u) >> 13;
    const uint32_t subnormal = BitsOf(FromBits(magnitude) * 0x1p24f + 0x1p23f) -
                               0x4b000000u;  // the sum's unit is a half's smallest number
    const uint32_t narrow = magnitude > 0x7f800000u    ? 0x7e00u
                            : magnitude >= 0x477ff000u ? 0x7c00u
                            : magnitude < 0x38800000u  ? subnormal
                                                       : normal;
    y[i] = static_cast<uint16_t>(sign | narrow);
  }
}

}  // namespace

extern const HalfTable kHalfTable = {
    .widen = Widen,
    .narrow = Narrow,
};

}  // namespace evoq::EVOQ_ISA
