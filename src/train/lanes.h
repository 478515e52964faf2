// Sums in an order that compilers can turn into vector code, and that is the same everywhere.
#pragma once

#include <cstdint>

namespace evoq {

// The sum of term(i), i < n, in float64: eight partial sums, of every eighth term each, in order;
// then these in order.
template <typename Term>
double SumInLanes(int64_t n, const Term& term) {
  constexpr int64_t kLanes = 8;
  double lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane)
      lanes[lane] += static_cast<double>(term(i + lane));
  }
  for (int64_t lane = 0; i < n; ++i, ++lane) lanes[lane] += static_cast<double>(term(i));
  double sum = 0;
  for (double lane : lanes) sum += lane;
  return sum;
}

}  // namespace evoq
