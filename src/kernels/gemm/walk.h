// A walk: a product of so few rows that one register tile has them all reads its weights once, as
// fast as memory gives them. The processor's own prefetching loses the panels, which lie apart: a
// walk asks for the lines of each panel ahead.
//
// Plain data only: this header is included by files that are compiled for one instruction set.
#pragma once

#include <cstdint>

namespace evoq {

inline constexpr int64_t kWalkAhead = 8192;  // bytes, in each panel

// Of several panels. Fewer rows are multiplied as fast as the processor's own prefetching reads.
inline constexpr int kLeastWalkRows = 3;

// Tiles with AVX-512 that may be one of a walk, and have time to ask for a line of each panel for
// each k. Larger products have the tallest ones, of 14 rows.
template <int kRows, int kPanels>
inline constexpr bool kMayWalk = kRows >= kLeastWalkRows && kRows < 14 && kPanels > 1;

// Asks for what the next k read: a walk's tile for a line of each panel, `line` bytes apart, into
// the L1 cache, others for kOtherwise lines, into the L2 cache.
template <int kRows, int kPanels, int kOtherwise = 1>
[[gnu::always_inline]] inline void FetchLines(const void* at, int64_t line) {
  constexpr bool kAll = kMayWalk<kRows, kPanels>;
#pragma GCC unroll 4
  for (int i = 0; i < (kAll ? kPanels : kOtherwise); ++i)
    __builtin_prefetch(static_cast<const char*>(at) + i * line, 0, kAll ? 3 : 2);
}

}  // namespace evoq
