// Disjoint sets of a graph's values.
#pragma once

#include <numeric>
#include <vector>

#include "graph/graph.h"

namespace evoq {

// Sets that values are joined into, such as those that must share their quantization parameters
// because an operator only moves numbers between them. Each value starts alone. Finding the set of
// a value halves its path (Tarjan and van Leeuwen, 1984): nearly constant time.
class ValueSets {
 public:
  explicit ValueSets(int value_count) : parent_(static_cast<size_t>(value_count)) {
    std::iota(parent_.begin(), parent_.end(), 0);
  }

  // The number of the value's set: that of one of its values, the same until sets are joined.
  int Find(ValueId v) {
    int i = v.index;
    while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
    return i;
  }
  void Join(ValueId a, ValueId b) { parent_[Find(a)] = Find(b); }

 private:
  std::vector<int> parent_;
};

}  // namespace evoq
