// How kernels cut their loops for the thread pool.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/math.h"

namespace evoq {

// Items per piece, for items that take about `item_ns` nanoseconds each: about two pieces per
// thread, none shorter than what waking a thread costs.
inline int64_t Grain(int64_t count, double item_ns, int threads) {
  constexpr double kPieceNs = 4000;
  const int64_t by_cost = static_cast<int64_t>(kPieceNs / std::max(item_ns, 0.001)) + 1;
  return std::max(CeilDiv(std::max<int64_t>(count, 1), int64_t{2} * threads), by_cost);
}

}  // namespace evoq
