// Counts how many elements of quantized values lie outside of the ranges of scale sets, on a sample
// of them.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "tensor/type.h"

namespace evoq {

// At most so many elements of a value are looked at, in pieces of 16 that are spread evenly.
inline constexpr int64_t kWatchedElements = 256;

// Ends of a value that its own function makes, as those of a fused Clip: none, infinite.
struct FusedEnds {
  double low = -INFINITY, high = INFINITY;
};

// A dense value of uint8 or int8 with one scale, stored under one set, seen under all.
class RangeWatch {
 public:
  // `types`: of the value under each set; `stored`: the set that it is stored under.
  RangeWatch(std::span<const TensorType> types, size_t stored, FusedEnds fused = {});

  // Whether a value is told apart by its ranges: uint8 or int8 with one scale under each set, and
  // one range at least 1.1 times as wide as another, or one set alone.
  static bool Tells(std::span<const TensorType> types);

  int64_t elements() const { return pieces_ * piece_; }  // that are looked at
  // Writes for each set how many of those lie outside of its ranges; for the set that it is stored
  // under, how many are at an end of the range beyond which numbers are cut off. An end at the real
  // 0 or at one of the value's own function cuts nothing off. Of sets that reach further than the
  // stored one, none.
  void Count(const std::byte* data, std::span<uint32_t> outside) const;

 private:
  struct Bounds {
    uint8_t low, high;  // numbers below and above are outside
  };
  int64_t size_;                // of the value, in bytes
  int64_t pieces_, piece_;      // how many, of how many elements
  uint8_t flip_;                // 0x80 for int8: makes the order that of uint8
  std::vector<Bounds> bounds_;  // by set
};

}  // namespace evoq
