// The memory that executors compute in which never run at the same time: they share it.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <utility>
#include <vector>

#include "kernels/backend.h"

namespace evoq {

// Any thread may call any function at any time.
class RunMemory {
 public:
  // What a lane of an executor needs memory for.
  enum class Use { kArena, kScratch };

  // At least `bytes` for lane `lane`: what was given for that before, where it is large enough,
  // else fresh memory, which is given from now on; executors that have the smaller one keep it. Of
  // the host's memory for arenas what is fresh is zero. Errors: those of the space.
  Result<std::shared_ptr<std::byte>> Get(const MemorySpace& space, size_t lane, Use use,
                                         size_t bytes);
  // Bytes that were given and that somebody holds.
  int64_t bytes() const;

 private:
  struct Block {
    size_t bytes = 0;
    std::shared_ptr<std::byte> memory;
  };
  using Key = std::tuple<const MemorySpace*, size_t, Use>;

  mutable std::mutex mutex_;
  std::map<Key, Block> largest_;
  std::vector<std::pair<size_t, std::weak_ptr<std::byte>>> outgrown_;
};

}  // namespace evoq
