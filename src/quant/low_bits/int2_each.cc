#include "quant/low_bits/loops.inl.h"

namespace evoq::EVOQ_ISA {
namespace {

struct Int2 {
  static constexpr int kBits = 2;
  // Of the scale that reaches both ends. Four numbers pay for clipping most of what is far out.
  static constexpr float kShares[] = {1, 0.9f, 0.8f, 0.7f, 0.6f, 0.5f, 0.4f, 0.3f};
  static constexpr int kTries = 2 * sizeof(kShares) / sizeof(float);
  static constexpr float kZeros[] = {1, 2};

  static float Storable(float scale) { return HalfScale(scale); }
  static float Zero(int i, float, float) { return kZeros[i % 2]; }
  static float Scale(int i, float low, float high) {
    const float zero = kZeros[i % 2];
    return HalfScale(kShares[i / 2] * More(high / (3 - zero), low / -zero));
  }
  static float Nearest(float v, float zero) { return RoundEven(Clamped(v, -zero, 3 - zero)); }
  static uint8_t Bits(float number, float zero) {
    return static_cast<uint8_t>(static_cast<int>(number + zero));
  }
};

}  // namespace

extern const Int2Loops kInt2Loops = LoopsOf<Int2>();

}  // namespace evoq::EVOQ_ISA
