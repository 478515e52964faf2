// What happens to finished rows of an integer linear operator while they are in the cache: a table
// on bytes; a curve and the range on float32.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "base/isa.h"
#include "kernels/math/unary.h"

namespace evoq {

struct Int8Finish {
  std::vector<uint8_t> table;  // 256 entries for outputs of one byte, or empty
  std::optional<Unary> curve;  // for float32 outputs: an activation that is not piecewise linear
  bool range = false;  // for float32 outputs: the least and largest of 0 and the results is wanted
  Isa isa = Isa::kScalar;

  bool any() const { return !table.empty() || curve || range; }
  // `rows` rows of `columns` elements, `stride` bytes apart. With `range`, widens range_out[0] and
  // range_out[16].
  void Rows(uint8_t* y, int64_t rows, int64_t columns, int64_t stride, float* range_out) const;
};

// Each of `count` pieces of scratch, `bytes` long, ends with the ranges that it found, in
// kRangeBytes: 16 lows, then 16 highs. Joined into range[2].
inline constexpr int64_t kRangeBytes = 128;
void JoinRanges(const std::byte* pieces, size_t bytes, int64_t count, float* range);

}  // namespace evoq
