#include "compile/memory.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "base/aligned.h"
#include "base/budget_scope.h"
#include "base/math.h"

namespace evoq {
namespace {

// Blocks by the steps at which they are alive: a tree over ranges of steps, each block at the few
// nodes that make up its life.
class Alive {
 public:
  explicit Alive(const std::vector<Lifetime>& blocks) : blocks_(blocks) {
    int steps = 1;
    for (const Lifetime& block : blocks) steps = std::max(steps, block.last + 1);
    while (leaves_ < static_cast<size_t>(steps)) leaves_ *= 2;
    at_.resize(2 * leaves_);
    below_.resize(2 * leaves_);
  }

  void Add(size_t index) {
    size_t low = leaves_ + static_cast<size_t>(blocks_[index].first),
           high = leaves_ + static_cast<size_t>(blocks_[index].last) + 1;
    for (; low < high; low /= 2, high /= 2) {
      if (low % 2 == 1) Put(low++, index);
      if (high % 2 == 1) Put(--high, index);
    }
  }

  // Those that share a step with `block`, by offset, each once or more often.
  std::vector<size_t> With(const Lifetime& block) const {
    std::vector<size_t> found;
    Visit(1, 0, leaves_ - 1, block, found);
    std::sort(found.begin(), found.end(),
              [&](size_t a, size_t b) { return blocks_[a].offset < blocks_[b].offset; });
    return found;
  }

 private:
  void Put(size_t node, size_t index) {
    at_[node].push_back(index);
    for (; node > 0 && !below_[node]; node /= 2) below_[node] = true;
  }
  // `node` stands for the steps from `low` to `high`.
  void Visit(size_t node, size_t low, size_t high, const Lifetime& block,
             std::vector<size_t>& found) const {
    if (!below_[node] || high < static_cast<size_t>(block.first) ||
        low > static_cast<size_t>(block.last))
      return;
    found.insert(found.end(), at_[node].begin(), at_[node].end());
    if (low == high) return;
    const size_t middle = (low + high) / 2;
    Visit(2 * node, low, middle, block, found);
    Visit(2 * node + 1, middle + 1, high, block, found);
  }

  const std::vector<Lifetime>& blocks_;
  size_t leaves_ = 1;
  std::vector<std::vector<size_t>> at_;
  std::vector<bool> below_;  // something is at the node or under it
};

}  // namespace

Result<int64_t> PlanArena(std::vector<Lifetime>& blocks) {
  std::vector<size_t> by_size(blocks.size());
  std::iota(by_size.begin(), by_size.end(), size_t{0});
  std::sort(by_size.begin(), by_size.end(), [&](size_t a, size_t b) {
    return blocks[a].bytes != blocks[b].bytes ? blocks[a].bytes > blocks[b].bytes : a < b;
  });
  Alive placed(blocks);
  int64_t arena = 0;
  for (size_t index : by_size) {
    Lifetime& block = blocks[index];
    const int64_t bytes = RoundUp(block.bytes, kAlignment);
    int64_t offset = 0;
    const std::vector<size_t> others = placed.With(block);
    EVOQ_TRY(SpendWork(static_cast<int64_t>(others.size()) * 16, "planning the arena"));
    for (size_t other : others) {
      const Lifetime& o = blocks[other];
      if (offset + bytes <= o.offset) break;  // fits in the gap before it
      offset = std::max(offset, o.offset + RoundUp(o.bytes, kAlignment));
    }
    block.offset = offset;
    arena = std::max(arena, offset + bytes);
    placed.Add(index);
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
