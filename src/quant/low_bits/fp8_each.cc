#include "quant/low_bits/loops.inl.h"

namespace evoq::EVOQ_ISA {
namespace {

// kMantissa bits behind 7 - kMantissa of the exponent; the largest number is 1.75 * 2^kTop.
template <int kMantissa, int kTop>
struct Fp8 {
  static constexpr int kBits = 8;
  static constexpr float kMost = 1.75f * static_cast<float>(1 << kTop);
  static constexpr int kLeastExponent = kMantissa == 3 ? -6 : -14;
  static constexpr float kZeros[] = {0};
  // As of mxfp4: with a largest magnitude of [2^(kTop - 1), 2^kTop) scales nothing is clipped, with
  // the half of such a scale, which is the specification's, what is above kMost.
  static constexpr int kTries = 2;

  static float Scale(int i, float low, float high) { return PowerScale(low, high, kTop - 1 + i); }
  static float Storable(float scale) { return NearestPower(scale); }
  static float Zero(int, float, float) { return 0; }
  // The step of a binade is 2^-kMantissa of its least number; below the normal ones it stays.
  static float Nearest(float v, float) {
    const float a = Less(__builtin_fabsf(v), kMost);
    const uint32_t binade = __builtin_bit_cast(uint32_t, a) & 0x7f800000u,
                   least = static_cast<uint32_t>(kLeastExponent + 127) << 23,
                   step = (binade < least ? least : binade) - (kMantissa << 23);
    // The whole multiples of the step, of two the even one, as RoundEven has those of 1.
    const float shift = __builtin_bit_cast(float, step + (23u << 23)) * 1.5f;
    return __builtin_copysignf(a + shift - shift, v);
  }
  static uint8_t Bits(float number, float) {
    const float a = __builtin_fabsf(number);
    const auto bits = __builtin_bit_cast(uint32_t, a);
    const int exponent = static_cast<int>(bits >> 23) - 127;
    // In steps of the subnormal numbers; larger ones, which are not read, must fit int.
    const auto steps =
        __builtin_bit_cast(float, static_cast<uint32_t>(127 - kLeastExponent + kMantissa) << 23);
    const int subnormal = static_cast<int>(Less(a, 1 / steps * (1 << kMantissa)) * steps);
    const int normal = (exponent - kLeastExponent + 1) << kMantissa |
                       (static_cast<int>(bits >> (23 - kMantissa)) & ((1 << kMantissa) - 1));
    return static_cast<uint8_t>(exponent < kLeastExponent ? subnormal : normal) |
           (__builtin_signbit(number) ? 0x80 : 0);
  }
};

}  // namespace

extern const Fp8Loops kFp8Loops = LoopsOf<Fp8<3, 8>>();
extern const Fp8E5m2Loops kFp8E5m2Loops = LoopsOf<Fp8<2, 15>>();

}  // namespace evoq::EVOQ_ISA
