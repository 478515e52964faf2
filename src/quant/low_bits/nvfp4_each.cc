#include "quant/low_bits/float4.h"
#include "quant/low_bits/loops.inl.h"

namespace evoq::EVOQ_ISA {
namespace {

struct Nvfp4 {
  static constexpr int kBits = 4;
  static constexpr int kTries = 8;
  static constexpr float kZeros[] = {0};

  // The scale that reaches the largest magnitude by 6, the two below it, and those above it, up to
  // about the one that reaches it by 4, where numbers lie closer (Cook et al. 2025, "Four Over
  // Six", arXiv:2512.02010).
  static float Scale(int i, float low, float high) {
    const int step = i < 3 ? -i : i - 2;
    return HalfScale(E4M3Scale(More(high, -low) * (1.0f / 6), /*up=*/true, step));
  }
  static float Storable(float scale) { return HalfScale(E4M3Scale(scale, /*up=*/false, 0)); }
  static float Zero(int, float, float) { return 0; }
  static float Nearest(float v, float) { return NearestFloat4(v); }
  static uint8_t Bits(float number, float) { return Float4Bits(number); }

 private:
  // A scale of four significant bits: the next one up or the nearest, and so many steps on.
  static float E4M3Scale(float scale, bool up, int steps) {
    constexpr uint32_t kDropped = 20;  // bits that float32's mantissa has more
    const auto bits = __builtin_bit_cast(uint32_t, scale);
    const uint32_t whole = 1u << kDropped;
    const uint32_t more = up ? whole - 1 : whole / 2 - 1 + (bits >> kDropped & 1);
    const auto rounded = (bits + more) >> kDropped;
    const uint32_t moved = static_cast<uint32_t>(static_cast<int>(rounded) + steps);
    // As of the largest that float32 has; the least are float16's (HalfScale).
    constexpr uint32_t kMost = 0x7f7fffffu >> kDropped;
    return __builtin_bit_cast(float, (rounded < 3 ? 3 : moved > kMost ? kMost : moved) << kDropped);
  }
};

}  // namespace

extern const Nvfp4Loops kNvfp4Loops = LoopsOf<Nvfp4>();

}  // namespace evoq::EVOQ_ISA
