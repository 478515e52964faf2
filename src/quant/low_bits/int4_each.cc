#include "quant/low_bits/loops.inl.h"

namespace evoq::EVOQ_ISA {
namespace {

struct Int4 {
  static constexpr int kBits = 4;
  // Of the scale that reaches both ends: a smaller one clips them for finer steps in between, a
  // larger one may fit the rest better, since the ends reach differently far.
  static constexpr float kShares[] = {1,     1.05f,  0.975f, 0.95f,  0.925f, 0.9f,   0.875f,
                                      0.85f, 0.825f, 0.8f,   0.775f, 0.75f,  0.725f, 0.7f};
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

// Steps have three significant bits: their floats are zero below these, and neighbours differ by
// kNextStep.
constexpr uint32_t kNextStep = 1u << 21;
constexpr float kMostMultiple = 15;

// Some columns of up to so many blocks.
constexpr int kColumns = 16, kBlocks = 4;
using Scales = float[kBlocks][kColumns];

EVOQ_ALWAYS_INLINE void ShareSome(int64_t blocks, Scales& scale) {
  constexpr float kLeast = 0x1p-18f, kMost = 32768;  // of the largest scale: steps are float16
  constexpr int kSteps = 4;                          // it becomes 15 to 8 of them
  float most[kColumns] = {}, step[kColumns], least[kColumns];
  for (int64_t b = 0; b < blocks; ++b) {
    for (int n = 0; n < kColumns; ++n) most[n] = More(most[n], scale[b][n]);
  }
  for (uint32_t i = 0; i < kSteps; ++i) {
    float tried[kColumns], inverse[kColumns], error[kColumns] = {};
    for (int n = 0; n < kColumns; ++n) {
      const float over = most[n] * (1 / (kMostMultiple + 0.5f));
      const uint32_t up = (__builtin_bit_cast(uint32_t, over) + kNextStep - 1) & ~(kNextStep - 1);
      tried[n] = __builtin_bit_cast(float, up + i * kNextStep);
      inverse[n] = 1 / tried[n];
    }
    for (int64_t b = 0; b < blocks; ++b) {
      for (int n = 0; n < kColumns; ++n) {
        const float s = scale[b][n];
        const float off = Clamped(RoundEven(s * inverse[n]), 1, kMostMultiple) * tried[n] - s;
        error[n] += s == 0 ? 0 : off * off;
      }
    }
    for (int n = 0; n < kColumns; ++n) {
      const bool better = (i == 0) | (error[n] < least[n]);
      step[n] = better ? tried[n] : step[n];
      least[n] = better ? error[n] : least[n];
    }
  }
  for (int64_t b = 0; b < blocks; ++b) {
    for (int n = 0; n < kColumns; ++n) {
      const float s = scale[b][n], shared = Clamped(RoundEven(s / step[n]), 1, kMostMultiple);
      scale[b][n] = (most[n] >= kLeast) & (most[n] <= kMost) ? shared * step[n] : s;
    }
  }
}

void Share(float* scale, int64_t stride, int64_t blocks, int64_t count) {
  for (int64_t n = 0; n < count; n += kColumns) {
    const int64_t some = count - n < kColumns ? count - n : kColumns;
    const size_t bytes = sizeof(float) * static_cast<size_t>(some);
    Scales scales = {};
    for (int64_t b = 0; b < blocks; ++b) __builtin_memcpy(scales[b], scale + b * stride + n, bytes);
    ShareSome(blocks, scales);
    for (int64_t b = 0; b < blocks; ++b) __builtin_memcpy(scale + b * stride + n, scales[b], bytes);
  }
}

constexpr Int4Loops LoopsWithSteps() {
  Int4Loops loops = LoopsOf<Int4>();
  loops.share = Share;
  return loops;
}

}  // namespace

extern const Int4Loops kInt4Loops = LoopsWithSteps();

}  // namespace evoq::EVOQ_ISA
