// LowBitsLoops of the numbers N, for the NAME_each.cc that defines them in an unnamed namespace of
// evoq::EVOQ_ISA:
//   static constexpr int kBits;
//   static constexpr int kTries;  // candidates of a block
//   static constexpr float kZeros[];  // the zero points that numbers may have
//   static float Scale(int i, float low, float high);  // of candidate i; low <= 0 <= high, one not
//   static float Zero(int i, float low, float high);   // its zero point; of zeros alone, any
//   static float Nearest(float v, float zero);         // nearest to v = w / scale; of 0 it is 0
//   static uint8_t Bits(float number, float zero);     // how it is stored
//   static float Storable(float scale);                // the nearest scale that can be stored
#pragma once

#include <cstddef>
#include <cstdint>

#include "quant/low_bits/loops.h"
#include "quant/low_bits/rounding.h"

namespace evoq::EVOQ_ISA {
namespace {

// Elements of kBits from element `first` on, into memory that is zero there.
template <int kBits>
void StoreBits(const uint8_t* q, int count, int64_t first, std::byte* to) {
  constexpr int kPerByte = 8 / kBits;
  const auto set = [&](int i) {
    to[(first + i) / kPerByte] |= static_cast<std::byte>(q[i] << ((first + i) % kPerByte * kBits));
  };
  int i = 0;
  for (; i < count && (first + i) % kPerByte != 0; ++i) set(i);
  std::byte* const whole = to + (first + i) / kPerByte;
  const int bytes = (count - i) / kPerByte;
  for (int b = 0; b < bytes; ++b) {
    int byte = 0;
    for (int j = 0; j < kPerByte; ++j) byte |= q[i + b * kPerByte + j] << (j * kBits);
    whole[b] = static_cast<std::byte>(byte);
  }
  for (i += bytes * kPerByte; i < count; ++i) set(i);
}

// Some columns of one block: so few that registers hold what is known of them.
template <typename N>
struct ColumnsOfBlock {
  static constexpr int kMost = 16;

  const float* w;  // of the first element
  int64_t stride, depth;
  const float* importance;  // of the rows; null: by cubes of errors

  template <bool kCubes>
  EVOQ_ALWAYS_INLINE void Search(int count, float* scale, float* zero) const {
    float low[kMost] = {}, high[kMost] = {}, least[kMost] = {};
    for (int64_t k = 0; k < depth; ++k) {
      for (int n = 0; n < count; ++n) {
        low[n] = Less(low[n], w[k * stride + n]);
        high[n] = More(high[n], w[k * stride + n]);
      }
    }
    for (int i = 0; i < N::kTries; ++i) {
      float tried[kMost], inverse[kMost], z[kMost], error[kMost] = {};
      EVOQ_ELEMENTWISE
      for (int n = 0; n < count; ++n) {
        const bool zeros = (low[n] == 0) & (high[n] == 0);
        const float reaches = N::Scale(i, low[n], high[n]);
        tried[n] = zeros ? 1 : reaches;
        inverse[n] = 1 / tried[n];
        z[n] = N::Zero(i, low[n], high[n]);
      }
      const auto off = [&](float v, int n) {
        return v - N::Nearest(v * inverse[n], z[n]) * tried[n];
      };
      const auto cube = [&](float v, int n) {
        const float e = off(v, n);
        return __builtin_fabsf(e) * e * e;
      };
      if constexpr (kCubes) {
        // A sum is no less than the error of one end alone, where that is none of 0: often enough
        // to know the worse.
        int open = i == 0;
        EVOQ_ELEMENTWISE
        for (int n = 0; n < count; ++n)
          open |= !(More(cube(low[n], n), cube(high[n], n)) >= least[n]);
        if (open == 0) continue;
      }
      for (int64_t k = 0; k < depth; ++k) {
        const float* row = w + k * stride;
        for (int n = 0; n < count; ++n) {
          if constexpr (kCubes) {
            error[n] += cube(row[n], n);
          } else {
            error[n] += importance[k] * off(row[n], n) * off(row[n], n);
          }
        }
      }
      EVOQ_ELEMENTWISE
      for (int n = 0; n < count; ++n) {
        const bool better = (i == 0) | (error[n] < least[n]);
        least[n] = better ? error[n] : least[n];
        scale[n] = better ? tried[n] : scale[n];
        zero[n] = better ? z[n] : zero[n];
      }
    }
  }
};

template <typename N>
void Choose(const float* w, int64_t stride, int64_t depth, int64_t count, const float* importance,
            float* scale, float* zero) {
  using Columns = ColumnsOfBlock<N>;
  for (int64_t n = 0; n < count; n += Columns::kMost) {
    const int some = static_cast<int>(count - n < Columns::kMost ? count - n : Columns::kMost);
    const Columns columns{w + n, stride, depth, importance};
    float best[Columns::kMost], zeros[Columns::kMost];
    if (importance != nullptr) {
      columns.template Search<false>(some, best, zeros);
    } else if (some == Columns::kMost) {
      columns.template Search<true>(Columns::kMost, best, zeros);  // a number that compilers know
    } else {
      columns.template Search<true>(some, best, zeros);
    }
    for (int i = 0; i < some; ++i) {
      scale[n + i] = best[i];
      zero[n + i] = zeros[i];
    }
  }
}

template <typename N>
void Store(const float* w, int64_t stride, int64_t depth, int64_t count, const float* scale,
           const float* zero, int64_t first, int64_t to_stride, std::byte* to) {
  uint8_t q[LowBitsLoops::kColumns];
  for (int64_t k = 0; k < depth; ++k) {
    const float* row = w + k * stride;
    for (int64_t n = 0; n < count; ++n)
      q[n] = N::Bits(N::Nearest(row[n] / scale[n], zero[n]), zero[n]);
    StoreBits<N::kBits>(q, static_cast<int>(count), first + k * to_stride, to);
  }
}

template <typename N>
void NearestNumbers(const float* v, const float* scale, const float* zero, int64_t count,
                    float* number) {
  for (int64_t n = 0; n < count; ++n) number[n] = N::Nearest(v[n] / scale[n], zero[n]);
}

template <typename N>
constexpr LowBitsLoops LoopsOf() {
  return {.choose = Choose<N>,
          .store = Store<N>,
          .nearest = NearestNumbers<N>,
          .zeros = N::kZeros,
          .zero_count = sizeof(N::kZeros) / sizeof(float),
          .bits = N::Bits,
          .scale = N::Storable};
}

}  // namespace
}  // namespace evoq::EVOQ_ISA
