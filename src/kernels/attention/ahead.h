// Memory that is read soon, prefetched beside other work: attention over a long cache would else
// read keys and values and compute in turn. A processor that is asked for much at once waits, so
// that kernels ask for a few lines at a time, in their inner loops. Into the second cache: the
// first one has no room beside what is computed with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/math.h"
#include "kernels/isa_table.h"

namespace evoq {

class Ahead {
 public:
  // Rows of memory, step_bytes apart. kMost times at most.
  void Add(const std::byte* rows, int64_t count, int64_t row_bytes, int64_t step_bytes) {
    if (step_bytes == row_bytes) row_bytes *= std::exchange(count, 1);
    areas_[used_++] = {rows, count, row_bytes, step_bytes};
    lines_ += count * CeilDiv(row_bytes, kLine);
  }
  // All of it is asked for in so many beats.
  void CutInto(int64_t beats) { beat_ = beats == 0 ? 0 : CeilDiv(lines_, beats); }

  // The lines of the next beat. Always inline, without a call: code of every instruction set calls
  // it, from loops that keep all they have in registers. Where it is comes from memory and goes
  // back once for all lines, which would else wait for one another.
  EVOQ_ALWAYS_INLINE void Beat() {
    const std::byte* at = at_;
    for (int64_t i = beat_; i > 0; --i, at += kLine) {
      if (at >= end_) {
        if (area_ == used_) {
          beat_ = 0;
          break;
        }
        Area& area = areas_[area_];
        at = area.rows;
        end_ = at + area.row_bytes;
        area.rows += area.step_bytes;
        if (--area.count == 0) ++area_;
      }
      __builtin_prefetch(at, 0, 2);
    }
    at_ = at;
  }

 private:
  static constexpr int64_t kLine = 64;
  static constexpr size_t kMost = 4;
  struct Area {
    const std::byte* rows;
    int64_t count, row_bytes, step_bytes;
  };
  const std::byte *at_ = nullptr, *end_ = nullptr;  // of the row that is asked for
  int64_t beat_ = 0;
  Area areas_[kMost] = {};
  size_t used_ = 0, area_ = 0;
  int64_t lines_ = 0;
};

}  // namespace evoq
