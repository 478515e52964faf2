#include "quant/low_bits/loops.inl.h"

namespace evoq::EVOQ_ISA {
namespace {

struct Int4 {
  static constexpr int kBits = 4;
  // Of the scale that reaches both ends: a smaller one clips them for finer steps in between, a
  // larger one may fit the rest better, since the ends reach differently far.
  static constexpr float kShares[] = {1, 1.05f, 0.95f, 0.9f, 0.85f, 0.8f, 0.75f, 0.7f};
  static constexpr int kTries = sizeof(kShares) / sizeof(float);
  static constexpr float kZeros[] = {0};

  static float Scale(int i, float low, float high) {
    return HalfScale(kShares[i] * More(high / 7.0f, low / -8.0f));
  }
  static float Storable(float scale) { return HalfScale(scale); }
  static float Zero(int, float, float) { return 0; }
  static float Nearest(float v, float) { return RoundEven(Clamped(v, -8.0f, 7.0f)); }
  static uint8_t Bits(float number, float) {
    return static_cast<uint8_t>(static_cast<int>(number)) & 15;
  }
};

}  // namespace

extern const Int4Loops kInt4Loops = LoopsOf<Int4>();

}  // namespace evoq::EVOQ_ISA
