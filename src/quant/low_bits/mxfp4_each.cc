#include "quant/low_bits/loops.inl.h"

namespace evoq::EVOQ_ISA {
namespace {

struct Mxfp4 {
  static constexpr int kBits = 4;
  // The largest number is 6: a largest magnitude of [2, 4) scales reaches it, and so may, with
  // clipping, the half of such a scale, which is the specification's choice.
  static constexpr int kTries = 2;
  static constexpr float kZeros[] = {0};

  static float Scale(int i, float low, float high) { return PowerScale(low, high, 1 + i); }
  static float Storable(float scale) { return NearestPower(scale); }
  static float Zero(int, float, float) { return 0; }
  // Ties go to the numbers with an even last bit: 0, 1, 2, 4.
  static float Nearest(float v, float) {
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
  static uint8_t Bits(float number, float) {
    constexpr uint8_t kByHalves[] = {0, 1, 2, 3, 4, 0, 5, 0, 6, 0, 0, 0, 7};
    return kByHalves[static_cast<int>(2 * __builtin_fabsf(number))] |
           (__builtin_signbit(number) ? 8 : 0);
  }
};

}  // namespace

extern const Mxfp4Loops kMxfp4Loops = LoopsOf<Mxfp4>();

}  // namespace evoq::EVOQ_ISA
