// Depthwise rows with NEON's dot product of signed bytes: activations are taken less 128, and what
// that lacks, 128 times the sum of a channel's weights, is added to its bias.
#define EVOQ_ISA neon_dot
#include <arm_neon.h>

#include <cmath>

#include "kernels/dwconv/dwconv_int8.inl.h"
#include "kernels/dwconv/dwconv_walk.inl.h"
#include "kernels/variants.h"

namespace evoq::neon_dot {
namespace {

// The walk's machine: four vertical taps of 4 channels to a vector, 16 channels to a block. The
// last block may have fewer: those of the next pixel lie behind them, but for the end of a row.
template <int K, int S>
struct Ring {
  using V = int32x4_t;
  static constexpr int kK = K, kS = S, kGroups = (K + 3) / 4, kAll = 4;
  struct RowPointers {
    const uint8_t* at[K];
  };

  const DwInt8Args& args;
  const int8_t* const weights;
  const uint8x16_t lowest, highest;  // of `plain` bytes: the bounds with the zero point
  int32_t bias[kDwBlock];
  const V outside;
  const int64_t channels;    // of the block
  const int64_t last_whole;  // the last offset from which 16 bytes of a row may be read

  Ring(const DwInt8Args& a, const RingWalk& walk)
      : args(a),
        weights(static_cast<const int8_t*>(a.ring) + walk.index * (K * kGroups * 64)),
        lowest(Bound(a.bounds.low)),
        highest(Bound(a.bounds.high)),
        outside(vreinterpretq_s32_u8(vdupq_n_u8(a.padding[0] ^ 0x80))),
        channels(walk.block.channels),
        last_whole(a.shape.w.in * a.shape.channels - walk.block.channel - kDwBlock) {
    const int64_t c = walk.block.channel;
    for (int j = 0; j < kDwBlock; ++j)
      bias[j] = static_cast<int32_t>(static_cast<uint32_t>(a.bias[c + j]) +
                                     static_cast<uint32_t>(a.ring_bias[c + j]));
  }

  static RowPointers Rows(const RingWalk& walk) {
    RowPointers rows;
    for (int ky = 0; ky < K; ++ky) rows.at[ky] = walk.rows[0][ky];
    return rows;
  }
  V Outside() const { return outside; }
  V Bias(int j) const { return vld1q_s32(bias + 4 * j); }
  V Weights(int tap, int j) const {
    return vreinterpretq_s32_s8(vld1q_s8(weights + 64 * tap + 16 * j));
  }
  static V Dot(V acc, V x, V w) {
    return vdotq_s32(acc, vreinterpretq_s8_s32(x), vreinterpretq_s8_s32(w));
  }
  V More(V acc, V, int, int) const { return acc; }

  template <int kFirst, int kVectors>
  void Column(const RowPointers& rows, int64_t offset, V* x) const {
    offset > last_whole ? Part<kFirst, kVectors>(rows, offset, x)
                        : Whole<kFirst, kVectors>(rows, offset, x);
  }

  template <int kFirst, int kVectors>
  [[gnu::noinline]] void Part(const RowPointers& rows, int64_t offset, V* x) const {
    uint8_t part[K][kDwBlock] = {};
    RowPointers copies;
    for (int ky = 0; ky < K; ++ky) {
      for (int64_t c = 0; c < channels; ++c) part[ky][c] = rows.at[ky][offset + c];
      copies.at[ky] = part[ky];
    }
    Whole<kFirst, kVectors>(copies, 0, x);
  }

  // Vectors [kFirst, kFirst + kVectors) of the operands of one input column.
  template <int kFirst, int kVectors>
  static void Whole(const RowPointers& rows, int64_t offset, V* x) {
    const auto load = [&](int ky) {
      return ky < K ? veorq_u8(vld1q_u8(rows.at[ky < K ? ky : 0] + offset), vdupq_n_u8(0x80))
                    : vdupq_n_u8(0);
    };
#pragma GCC unroll 2
    for (int g = 0; g < kGroups; ++g, x += kVectors) {
      const uint8x16_t a = load(4 * g), b = load(4 * g + 1), c = load(4 * g + 2),
                       d = load(4 * g + 3);
      if (kFirst == 0) Four(vzip1q_u8(a, b), vzip1q_u8(c, d), x);
      if (kFirst + kVectors == kAll) Four(vzip2q_u8(a, b), vzip2q_u8(c, d), x + 2 - kFirst);
    }
  }
  static void Four(uint8x16_t ab, uint8x16_t cd, V* x) {
    const uint16x8_t first = vreinterpretq_u16_u8(ab), second = vreinterpretq_u16_u8(cd);
    x[0] = vreinterpretq_s32_u16(vzip1q_u16(first, second));
    x[1] = vreinterpretq_s32_u16(vzip2q_u16(first, second));
  }

  void Store(const RingWalk& walk, const V* acc, int64_t offset, const void* residual,
             void* y) const {
    const int64_t c = walk.block.channel, at = walk.y[0] + offset;
    if (!args.plain || channels < kDwBlock) {
      alignas(16) int32_t sums[kDwBlock];
      for (int j = 0; j < kAll; ++j) vst1q_s32(sums + 4 * j, acc[j]);
      return FinishPixel(args, sums, c, channels, at, residual, y);
    }
    const auto integers = [&](int j) {
      return vcvtnq_s32_f32(
          vmulq_f32(vcvtq_f32_s32(acc[j]), vld1q_f32(args.multiplier + c + 4 * j)));
    };
    const int16x8_t zero = vdupq_n_s16(static_cast<int16_t>(args.bounds.zero));
    const auto words = [&](int j) {
      return vqaddq_s16(vqmovn_high_s32(vqmovn_s32(integers(j)), integers(j + 1)), zero);
    };
    const uint8x16_t bytes = vqmovun_high_s16(vqmovun_s16(words(0)), words(2));
    vst1q_u8(static_cast<uint8_t*>(y) + at, vminq_u8(vmaxq_u8(bytes, lowest), highest));
  }

 private:
  uint8x16_t Bound(float bound) const {
    if (!args.plain) return vdupq_n_u8(0);
    return vdupq_n_u8(
        static_cast<uint8_t>(static_cast<int32_t>(std::nearbyint(bound)) + args.bounds.zero));
  }
};

RingFn RingFor(const DwShape& shape) {
  const int64_t k = shape.w.kernel, s = shape.w.stride;
  if constexpr (HasDepthwiseVariant(5)) {
    if (k == 5) return s == 1 ? WalkRow<Ring<5, 1>> : WalkRow<Ring<5, 2>>;
    if (k == 7) return s == 1 ? WalkRow<Ring<7, 1>> : WalkRow<Ring<7, 2>>;
  }
  return s == 1 ? WalkRow<Ring<3, 1>> : WalkRow<Ring<3, 2>>;
}

void Int8Rows(const DwInt8Args& args, const uint8_t* x, const void* residual, void* y,
              int64_t begin, int64_t end) {
  if (args.ring == nullptr) return Int8RowsPlain(args, x, residual, y, begin, end);
  const RingFn run = RingFor(args.shape);
  for (int64_t row = begin; row < end; ++row) {
    for (int64_t block = 0; block < args.shape.blocks(); ++block)
      RingRows(args, run, block, x, residual, y, row, row + 1);
  }
}

}  // namespace

extern const DwTable kDwTable = {
    .int8_rows = Int8Rows,
    .float_rows =
        [](const DwFloatArgs& args, const float* x, const float* residual, float* y, int64_t begin,
           int64_t end) { scalar::kDwTable.float_rows(args, x, residual, y, begin, end); },
    .ring_lanes = kDwBlock};

}  // namespace evoq::neon_dot
