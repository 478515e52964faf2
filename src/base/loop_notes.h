// How parallel loops are cut, without running them.
#pragma once

#include <cstdint>
#include <vector>

namespace evoq {

// A loop over `count` items that threads share in pieces of `grain`.
struct LoopCut {
  int64_t count = 0, grain = 1;
};

// While it lives, loops that pools would share out for the calling thread are noted and not run:
// what they would compute is missing. Loops of one piece run. At most one at a time per thread.
class LoopNotes {
 public:
  LoopNotes();
  ~LoopNotes();
  LoopNotes(const LoopNotes&) = delete;
  LoopNotes& operator=(const LoopNotes&) = delete;

  const std::vector<LoopCut>& loops() const { return loops_; }

 private:
  friend class ThreadPool;
  std::vector<LoopCut> loops_;
};

}  // namespace evoq
