#include "compile/memory.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "base/aligned.h"
#include "base/math.h"

namespace evoq {

int64_t PlanArena(std::vector<Lifetime>& blocks) {
  std::vector<size_t> by_size(blocks.size());
  std::iota(by_size.begin(), by_size.end(), size_t{0});
  std::sort(by_size.begin(), by_size.end(), [&](size_t a, size_t b) {
    return blocks[a].bytes != blocks[b].bytes ? blocks[a].bytes > blocks[b].bytes : a < b;
  });
  std::vector<size_t> placed;  // by offset
  int64_t arena = 0;
  for (size_t index : by_size) {
    Lifetime& block = blocks[index];
    const int64_t bytes = RoundUp(block.bytes, kAlignment);
    int64_t offset = 0;
    for (size_t other : placed) {
      const Lifetime& o = blocks[other];
      if (o.last < block.first || block.last < o.first) continue;
      if (offset + bytes <= o.offset) break;  // fits in the gap before it
      offset = std::max(offset, o.offset + RoundUp(o.bytes, kAlignment));
    }
    block.offset = offset;
    arena = std::max(arena, offset + bytes);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), index,
                                   [&](size_t a, size_t b) { return blocks[a].offset < blocks[b].offset; }),
                  index);
  }
  return arena;
}

int64_t LiveBytes(const std::vector<Lifetime>& blocks) {
  std::map<int, int64_t> change;  // at the begin of a step
  for (const Lifetime& block : blocks) {
    change[block.first] += RoundUp(block.bytes, kAlignment);
    change[block.last + 1] -= RoundUp(block.bytes, kAlignment);
  }
  int64_t live = 0, most = 0;
  for (const auto& [step, bytes] : change) most = std::max(most, live += bytes);
  return most;
}

}  // namespace evoq
