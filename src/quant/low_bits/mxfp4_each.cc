#include "quant/low_bits/float4.h"
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
  static float Nearest(float v, float) { return NearestFloat4(v); }
  static uint8_t Bits(float number, float) { return Float4Bits(number); }
};

}  // namespace

extern const Mxfp4Loops kMxfp4Loops = LoopsOf<Mxfp4>();

}  // namespace evoq::EVOQ_ISA
