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

}  // namespace evoq
