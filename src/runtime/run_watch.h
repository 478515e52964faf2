// Which values of a program are watched while it runs, and what was counted.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "program/model.h"
#include "runtime/adapter.h"
#include "runtime/range_watch.h"

namespace evoq {

// Whether two programs of one model have the same steps, of the same nodes, and the same places for
// all values: what scale sets may not change.
bool SameStepsAndPlaces(const Program& a, const Program& b);

// The first outputs of steps that compute numbers (moving them says nothing new) whose ranges tell
// the sets apart. Looking allocates nothing.
class RunWatch {
 public:
  RunWatch() = default;
  RunWatch(RunWatch&&) = default;
  RunWatch& operator=(RunWatch&&) = default;
  // Of a program under each set. The tensors are made known to `adapter`.
  RunWatch(std::span<const std::shared_ptr<const Program>> sets, Adapter& adapter);

  // So many runs from one look to the next that looking costs 0.5% of the time, by the sizes of the
  // program and of the sample: the same on every machine.
  int every() const { return every_; }
  size_t size() const { return values_.size(); }
  size_t step(size_t i) const { return values_[i].step; }
  // Counts in what step(i) wrote under `set`.
  void Look(size_t i, size_t set, const void* output) {
    const RangeWatch& watch = values_[i].by_set[set];
    counts_[i].seen = watch.elements();
    watch.Count(static_cast<const std::byte*>(output), Outside(i));
  }
  // What the looks of a run counted.
  std::span<const Adapter::Count> counts() const { return counts_; }

 private:
  struct Value {
    size_t step;
    std::vector<RangeWatch> by_set;  // by the set that it is stored under
  };
  std::span<uint32_t> Outside(size_t i) { return std::span(outside_).subspan(i * sets_, sets_); }

  size_t sets_ = 0;
  int every_ = 1;
  std::vector<Value> values_;
  std::vector<uint32_t> outside_;  // by value, by set
  std::vector<Adapter::Count> counts_;
};

}  // namespace evoq
