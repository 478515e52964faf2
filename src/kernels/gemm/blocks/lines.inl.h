// The numbers in lines of weights (product.h), taken apart on one instruction set.
#pragma once

#include "kernels/gemm/blocks/vectors.inl.h"

namespace evoq::EVOQ_ISA {
namespace {

// Kinds of lines, in the order of BlockLines: groups of four k in a line, the largest number (any
// number where it is 255), the numbers of group i.
struct Nibbles {
  static constexpr int kGroups = 2, kLargest = 15;
  static EVOQ_ALWAYS_INLINE Bytes Group(const Bytes& line, int i) { return Bits<4>(line, i); }
};
struct Pairs {
  static constexpr int kGroups = 4, kLargest = 3;
  static EVOQ_ALWAYS_INLINE Bytes Group(const Bytes& line, int i) { return Bits<2>(line, i); }
};
struct E2m1 {
  static constexpr int kGroups = 2, kLargest = 2 * kE2m1Offset;
  static EVOQ_ALWAYS_INLINE Bytes Group(const Bytes& line, int i) {
    // Twice 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives, plus kE2m1Offset.
    alignas(16) static constexpr uint8_t kTable[16] = {12, 13, 14, 15, 16, 18, 20, 24,
                                                       12, 11, 10, 9,  8,  6,  4,  0};
    return LookUp(kTable, Bits<4>(line, i));
  }
};
struct SmallBytes {
  static constexpr int kGroups = 1, kLargest = 2 * kE2m1Offset;
  static EVOQ_ALWAYS_INLINE Bytes Group(const Bytes& line, int) { return line; }
};
struct FlippedBytes {
  static constexpr int kGroups = 1, kLargest = 255;
  static EVOQ_ALWAYS_INLINE Bytes Group(const Bytes& line, int) {
    if constexpr (kSignedBytes) return line;
    return Flip(line);
  }
};
struct StepBytes : SmallBytes {
  static constexpr int kLargest = 255;
};

template <typename L>
EVOQ_ALWAYS_INLINE int64_t LinesOf(int64_t k) {
  return (k + 4 * L::kGroups - 1) / (4 * L::kGroups);
}

}  // namespace
}  // namespace evoq::EVOQ_ISA
