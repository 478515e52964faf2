// How a product is shared out between threads: its rows are cut into blocks, and its columns.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cpu_model.h"

namespace evoq {

// The first of `count` items that part `part` of `parts` nearly equal parts has.
inline int64_t PartBegin(int64_t count, int64_t parts, int64_t part) {
  return count / parts * part + std::min(part, count % parts);
}
// The part that has an item, of no more parts than items.
inline int64_t PartOf(int64_t count, int64_t parts, int64_t item) {
  const int64_t least = count / parts, larger = count % parts * (least + 1);
  return item < larger ? item / (least + 1) : count % parts + (item - larger) / least;
}

// A product of register tiles. Where several products run side by side (groups, a batch), of one.
struct SharedWork {
  int64_t tiles = 1;             // of rows
  int64_t units = 1;             // of columns, as wide as a register tile
  int64_t products = 1;          // that run side by side
  int64_t least_row_blocks = 1;  // what a core's cache asks for
  double tile_ns = 0;            // a tile of rows by a unit of columns
  double rows_ns = 0;            // to bring a tile's rows into the core's cache
  double columns_ns = 0;         // to bring a unit's columns
  double task_ns = 0;
};

enum class ShareBy { kCost, kRows, kColumns };

struct ShareRule {
  ShareBy by = ShareBy::kCost;
  int64_t most_per_thread = 8;  // tasks to think of
  // Tasks are a multiple of the threads where they can be, blocks of rows all have the same number
  // of tiles, but for the last one.
  bool whole_rounds = false;
};

struct SharedOut {
  int64_t row_blocks = 1, column_blocks = 1;
};

// Cuts so that the thread with the most to do is done first. A task costs its tiles, what it brings
// into its core's cache, and a little for being one; what a thread that comes late leaves to the
// others grows with the size of a task.
SharedOut ShareOut(const SharedWork& work, const ShareRule& rule, int threads, const CpuModel& cpu);

}  // namespace evoq
