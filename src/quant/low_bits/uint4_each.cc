#include "quant/low_bits/loops.inl.h"

namespace evoq::EVOQ_ISA {
namespace {

struct Uint4 {
  static constexpr int kBits = 4;
  // Of the scale that reaches both ends, as of int4.
  static constexpr float kShares[] = {1, 0.95f, 0.9f, 0.85f, 0.8f, 0.75f, 0.7f};
  static constexpr int kTries = sizeof(kShares) / sizeof(float);
  static constexpr float kZeros[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

  // Where zero lies between the ends; numbers on either side wherever there are weights.
  static float Zero(int, float low, float high) {
    const float span = high - low;
    const float place = RoundEven(Clamped(-15 * (low / span), 0.0f, 15.0f));
    const float inside = Clamped(place, low < 0 ? 1.0f : 0.0f, high > 0 ? 14.0f : 15.0f);
    return span > 0 ? inside : 8;
  }
  static float Scale(int i, float low, float high) {
    const float zero = Zero(i, low, high);
    const float above = high / (zero < 15 ? 15 - zero : 1), below = low / (zero > 0 ? -zero : -1);
    return HalfScale(kShares[i] * More(above, below));
  }
  static float Storable(float scale) { return HalfScale(scale); }
  static float Nearest(float v, float zero) { return RoundEven(Clamped(v, -zero, 15 - zero)); }
  static uint8_t Bits(float number, float zero) {
    return static_cast<uint8_t>(static_cast<int>(number + zero));
  }
};

}  // namespace

extern const Uint4Loops kUint4Loops = LoopsOf<Uint4>();

}  // namespace evoq::EVOQ_ISA
