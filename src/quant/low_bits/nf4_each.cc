#include "quant/low_bits/loops.inl.h"
#include "tensor/normal_float.h"

namespace evoq::EVOQ_ISA {
namespace {

struct Nf4 {
  static constexpr int kBits = 4;
  static constexpr float kShares[] = {1, 0.95f, 0.9f, 0.85f, 0.8f};
  static constexpr int kTries = sizeof(kShares) / sizeof(float);
  static constexpr float kZeros[] = {0};

  static float Scale(int i, float low, float high) {
    return HalfScale(kShares[i] * More(high, -low));
  }
  static float Storable(float scale) { return HalfScale(scale); }
  static float Zero(int, float, float) { return 0; }
  static float Nearest(float v, float) {
    float n = kNormalFloat4Values[0];
    for (int i = 1; i < 16; ++i)
      n = v > (kNormalFloat4Values[i - 1] + kNormalFloat4Values[i]) / 2 ? kNormalFloat4Values[i]
                                                                        : n;
    return n;
  }
  static uint8_t Bits(float number, float) {
    uint8_t i = 0;
    while (i < 15 && kNormalFloat4Values[i] != number) ++i;
    return i;
  }
};

}  // namespace

extern const Nf4Loops kNf4Loops = LoopsOf<Nf4>();

}  // namespace evoq::EVOQ_ISA
